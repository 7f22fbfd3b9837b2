// SPDX-License-Identifier: Apache-2.0
// error: a collective writes to this buffer: it must not be const
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  const std::vector<float> data(8);
  co_await comm.all_reduce(data, cohort::ReduceOp::sum);
}
