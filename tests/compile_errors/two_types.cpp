// SPDX-License-Identifier: Apache-2.0
// error: input and output of a collective have elements of one type
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  std::vector<float> in(8);
  std::vector<double> out(8);
  co_await comm.all_reduce(in, out, cohort::ReduceOp::sum);
}
