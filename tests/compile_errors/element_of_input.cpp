// SPDX-License-Identifier: Apache-2.0
// error: the elements of a collective are float, double, std::int32_t or std::int64_t; broadcast_bytes() and
#include <cohort/cohort.h>

#include <array>
#include <string>
#include <vector>

cohort::Task<> use(cohort::Communicator& comm) {
  const std::array<unsigned, 4> in{};
  std::vector<float> out(4);
  co_await comm.all_gather(in, out);
}
