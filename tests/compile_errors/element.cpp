// SPDX-License-Identifier: Apache-2.0
// error: the elements of a collective are std::int8_t to std::int64_t, std::uint8_t to std::uint64_t, float,
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  std::vector<char32_t> data(8);
  co_await comm.all_reduce(data, cohort::ReduceOp::sum);
}
