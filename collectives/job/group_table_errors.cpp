// SPDX-License-Identifier: Apache-2.0
// What a rank is told of a group that could not be made.
#include <cohort/collectives/job/group_table.h>

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>

namespace cohort {

/// The first that has not come; else the first that has not answered; else the first that waits itself.
Error GroupTable::not_made_in_time(const Group& group, Duration timeout) const {
  enum Way : std::size_t { absent, silent, undecided };
  std::array<std::string, 3> names;
  std::array<std::optional<Rank>, 3> first;
  for (Rank member = 0; member < group.members_.size(); ++member) {
    const Group::Member& state = group.members_[member];
    const std::uint64_t own = group.members_[group.rank].agreed;
    if (member == group.rank || (state.is_bound() && state.agreed == own && own != 0)) continue;
    const Way way = !state.is_here ? absent : !state.has_accepted ? silent : undecided;
    const Rank rank = group.place.ranks[member];
    names[way] += (names[way].empty() ? "" : ", ") + membership_.peers[rank].describe();
    if (!first[way]) first[way] = rank;
  }
  const Way way = first[absent] ? absent : first[silent] ? silent : undecided;
  constexpr std::array kWhat = {"not called so far by", "called, and not answered so far, by",
                                "called by all, but there are ranks that do not hear each other:"};
  const Error error(
      ErrorKind::DeadlineExceeded,
      fmt::format("group '{}' was not made within {:.3f} s: {} {}; every rank of a group has "
                  "to make it, with the same name and ranks",
                  group.name, std::chrono::duration<double>(timeout).count(), kWhat[way], names[way]));
  return first[way] ? error.with_culprit(*first[way]) : error;
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
