// SPDX-License-Identifier: Apache-2.0
// What a rank is told of a group that could not be made.
#include <cohort/collectives/job/group_table.h>

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>

namespace cohort {

Error GroupTable::not_made_in_time(const Group& group, Duration timeout) const {
  std::string absent;
  std::string silent;
  std::optional<Rank> culprit;
  for (Rank member = 0; member < group.members_.size(); ++member) {
    const Group::Member& state = group.members_[member];
    if (state.is_bound() && state.agreed == group.members_[group.rank].agreed) continue;
    const Rank rank = group.place.ranks[member];
    std::string& those = state.is_here ? silent : absent;
    those += (those.empty() ? "" : ", ") + membership_.peers[rank].describe();
    if (!culprit || (!state.is_here && group.members_[*culprit].is_here)) culprit = member;
  }
  const std::string why = absent.empty()
                              ? fmt::format("not answered so far by {}, which has called it", silent)
                              : fmt::format("not called so far by {}", absent);
  const Error error(ErrorKind::DeadlineExceeded,
                    fmt::format("group '{}' was not made within {:.3f} s: {}; every rank of a group has to "
                                "make it, with the same name and ranks",
                                group.name, std::chrono::duration<double>(timeout).count(), why));
  return culprit ? error.with_culprit(group.place.ranks[*culprit]) : error;
}

Error GroupTable::gone(const Group& group, Rank member, bool has_left) const {
  const Rank rank = group.place.ranks[member];
  return Error(
             has_left ? ErrorKind::PeerAborted : ErrorKind::PeerDied,
             fmt::format("{} {} before group '{}' was made; look at its output, or leave it out of the group",
                         membership_.peers[rank].describe(), has_left ? "left" : "ended", group.name))
      .with_culprit(rank);
}

Error GroupTable::other_members(const Group& group, Rank member) const {
  const Rank rank = group.place.ranks[member];
  return Error(ErrorKind::Mismatch,
               fmt::format(
                   "group '{}': {} gives other ranks than {}, which gives ranks {} of '{}'; all members must "
                   "give the same ranks in the same order",
                   group.name, membership_.peers[rank].describe(), membership_.self().describe(),
                   fmt::join(group.place.ranks, ", "), membership_.name))
      .with_culprit(rank);
}

}  // namespace cohort
