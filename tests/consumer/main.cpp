// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <fmt/core.h>

#include <chrono>
#include <vector>

cohort::Task<> sleep(cohort::Engine& engine) { co_await engine.sleep_for(std::chrono::hours(1)); }

cohort::Task<> sleep_beside(cohort::Engine& engine) {
  cohort::TaskScope scope;
  scope.spawn(sleep(engine));
  co_await scope.join();
}

cohort::Task<> train(cohort::Communicator& comm) {
  std::vector<float> grad(1 << 20, comm.rank() + 1.0f);
  try {
    co_await cohort::with_deadline(std::chrono::milliseconds(1), sleep_beside(comm.engine()));
  } catch (const cohort::Error& error) {
    if (error.kind() != cohort::ErrorKind::DeadlineExceeded) throw;
  }
  co_await comm.all_reduce(grad, cohort::ReduceOp::sum);
  fmt::print("rank {} of {}: {}\n", comm.rank(), comm.size(), grad[0]);
}

int main() { return cohort::run(train); }  // joins from the environment, drives the engine, reports errors
