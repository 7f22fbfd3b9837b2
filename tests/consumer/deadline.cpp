// SPDX-License-Identifier: Apache-2.0
// A scope that the library ends: by way of the class's vtable, which is the library's.
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <chrono>

cohort::Task<> sleep(cohort::Engine& engine) { co_await engine.sleep_for(std::chrono::hours(1)); }

cohort::Task<> sleep_beside(cohort::Engine& engine) {
  cohort::TaskScope scope;
  scope.spawn(sleep(engine));
  co_await scope.join();
}

cohort::Task<> be_late(cohort::Communicator& comm) {
  try {
    co_await cohort::with_deadline(std::chrono::milliseconds(1), sleep_beside(comm.engine()));
  } catch (const cohort::Error& error) {
    if (error.kind() != cohort::ErrorKind::DeadlineExceeded) throw;
    fmt::print("rank {} of {}: {}\n", comm.rank(), comm.size(), 1);
  }
}

int main() { return cohort::run(be_late); }
