// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join_notes.h>

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace cohort {

void JoinNotes::add(std::string text, bool has_proven_itself) {
  Kind& kind = has_proven_itself ? members_ : strangers_;
  const auto found = kind.times.find(text);
  if (found != kind.times.end())
    ++found->second;
  else if (kind.times.size() < (has_proven_itself ? kMostOfMembers : kMostOfStrangers))
    kind.times.emplace(std::move(text), 1);
  else
    ++kind.left_out;
}

std::string JoinNotes::text() const {
  std::string all;
  const auto append = [&](const Kind& kind, std::string_view the_rest) {
    for (const auto& [what, times] : kind.times)
      all += fmt::format("; {}{}", what, times == 1 ? "" : fmt::format(" ({} times)", times));
    if (kind.left_out != 0) all += fmt::format("; {} more of {}", kind.left_out, the_rest);
  };
  append(members_, "ranks that came");
  append(strangers_, "those who did not prove who they are");
  return all;
}

}  // namespace cohort
