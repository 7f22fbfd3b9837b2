// SPDX-License-Identifier: Apache-2.0
// error: the function of a reduction has no state: give a lambda without captures
#include <cohort/cohort.h>

#include <vector>

cohort::Task<> use(cohort::Communicator& comm, float weight) {
  std::vector<float> data(3);
  const auto op = cohort::reduction<float>([weight](float a, float b) { return a + weight * b; });
  co_await comm.all_reduce(data, op);
}
