// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/exercise.h>

namespace cohort::bench {
namespace {

bool takes_part(Rank rank) { return rank < 2; }

/// Rank 0 has what goes out and what comes back, rank 1 one buffer that it answers from.
Extent extent_of_messages(const Form& form, Rank rank) {
  return {.send = rank == 0 ? form.count : 0, .recv = takes_part(rank) ? form.count : 0};
}

Result result_of_messages(const Form& form, Rank rank) {
  if (!takes_part(rank)) return {};
  return {{.at = 0, .elements = form.count, .first = 0, .end = 1, .from = 0}};
}

double bus_factor_of_messages(Rank /*ranks*/) { return 2; }

std::uint64_t traffic_of_messages(const Form& form) { return 2 * std::uint64_t{form.count}; }

}  // namespace

const OperatorInfo Exercise::kMessages = {.name = "send_recv",
                                          .has_in_place = false,
                                          .extent = extent_of_messages,
                                          .result = result_of_messages,
                                          .bus_factor = bus_factor_of_messages,
                                          .least_traffic = traffic_of_messages};

}  // namespace cohort::bench
