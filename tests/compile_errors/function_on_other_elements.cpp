// SPDX-License-Identifier: Apache-2.0
// error: the buffers have elements of another type than the reduction's function
#include <cohort/cohort.h>

#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  std::vector<float> data(3);
  const auto op = cohort::reduction<double>([](double a, double b) { return a * b; });
  co_await comm.all_reduce(data, op);
}
