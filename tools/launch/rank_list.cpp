// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/rank_list.h>

#include <fmt/format.h>

#include <iterator>

namespace cohort {

std::string describe_ranks(std::span<const Rank> ranks) {
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first != 0) text += ", ";
    fmt::format_to(std::back_inserter(text), "{}", ranks[first]);
    // Two in a row read better as a list.
    if (last != first)
      fmt::format_to(std::back_inserter(text), "{}{}", last == first + 1 ? ", " : "-", ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace cohort
