// SPDX-License-Identifier: Apache-2.0
// error: the elements of a collective are std::int8_t to std::int64_t, std::uint8_t to std::uint64_t, float,
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  const std::array<long double, 4> in{};
  std::vector<float> out(4);
  co_await comm.all_gather(in, out);
}
