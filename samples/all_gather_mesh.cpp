// SPDX-License-Identifier: Apache-2.0
// The Hello World: four ranks gather each other's blocks with the mesh algorithm.
//   build/release/bin/cohort run -n 4 -- build/release/bin/all_gather_mesh
// Started without `cohort run` it runs four ranks as threads. The schedule itself, main stream, sub streams,
// notifies and links, is collectives/schedules/algorithms/all_gather_mesh.cpp.
#include <cohort/cohort.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <vector>

namespace {

cohort::Task<> hello(cohort::Communicator& comm) {
  constexpr std::size_t kCount = 3;
  std::vector<std::int32_t> mine(kCount);
  for (std::size_t i = 0; i < kCount; ++i) mine[i] = static_cast<std::int32_t>(comm.rank() * 10 + i);
  std::vector<std::int32_t> everybodys(kCount * comm.size());

  auto gather = comm.all_gather(mine, everybodys).with_algorithm("mesh");
  co_await std::move(gather);

  fmt::print("rank {} of {} gave {} and has {}\n", comm.rank(), comm.size(), mine, everybodys);
}

}  // namespace

int main() {
  const bool is_launched = std::getenv("COHORT_RANK") != nullptr;
  return is_launched ? cohort::run(hello) : cohort::run_threads(4, hello);
}
