// SPDX-License-Identifier: Apache-2.0
// Whose attempts at a group meet: invitations, and which ones are accepted.
#include <cohort/collectives/job/group_table.h>

#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cohort {
namespace {

/// What a peer may have said of a group that this rank has not made: statuses and its end.
constexpr std::size_t kMostEarly = 16;
constexpr std::size_t kMostInvitations = kMostGroups;
/// Of groups that a peer has given up again before this rank has made them: whoever comes late to one is told
/// why.
constexpr std::size_t kMostGivenUp = 16;

}  // namespace

void GroupTable::invite(Group& group) noexcept {
  ControlMessage message;
  message.type = ControlMessage::Type::invite;
  message.sequence = group.place.regions[group.rank];
  message.signature = {.what = group.digest_, .count = group.members_[group.rank].buffer_bytes};
  message.set_text(group.name);
  tell_members(group, message);
  group.is_invited_ = true;
  for (Rank member = 0; member < group.members_.size(); ++member)
    if (member != group.rank) accept(group, member);
  agree(group);  // at once in a group of one
}

void GroupTable::accept(const Group& group, Rank member) noexcept {
  if (!group.is_invited_ || group.place.numbers[member] == 0) return;
  ControlMessage message;
  message.type = ControlMessage::Type::accept;
  message.group = group.number;
  message.sequence = group.place.numbers[member];
  control_.send(group.place.ranks[member], message);
}

void GroupTable::on_group_message(Rank from, const ControlMessage& message) {
  if (message.group == 0) return;
  if (message.type == ControlMessage::Type::invite) {
    take_invitation(from, message);
    return;
  }
  const auto found = heard_[from].find(message.group);
  if (found == heard_[from].end()) return;  // of a group that is over
  Invitation& invitation = found->second;
  if (message.type == ControlMessage::Type::accept) {
    take_acceptance(from, message.group, message.sequence);
    return;
  }
  if (message.type == ControlMessage::Type::agree) return take_agreement(invitation, message.signature.what);
  if (invitation.is_parted) return take_word_of_parted(from, found, message);
  const Group* const group = invitation.group;
  if (group != nullptr && (group->listener_ != nullptr || !group->is_open_))
    return deliver(*invitation.group, invitation.member, message);
  if (message.type == ControlMessage::Type::query) answer_while_making(from, invitation);
  keep_early(invitation, message);
  if (group == nullptr && invitation.is_over) forget_given_up(from);
}

void GroupTable::take_invitation(Rank from, const ControlMessage& message) {
  Invitations& heard = heard_[from];
  const std::string name = message.text_for_people();
  // Who invites once more has given up the last time. What it was in may still be made here, though: those
  // who are in it have yet to hear that it left.
  std::erase_if(heard, [&](const auto& entry) {
    const Group* const bound = entry.second.group;
    const bool is_needed = bound != nullptr && bound->is_being_made();
    return entry.second.is_over && !is_needed && entry.second.name == name;
  });
  if (heard.contains(message.group) || heard.size() >= kMostInvitations) {
    log(LogLevel::warn, "rank {} invites to group '{}' under number {}, which is in use: ignored", from, name,
        message.group);
    return;
  }
  Invitation& invitation = heard[message.group];
  invitation.name = name;
  invitation.digest = message.signature.what;
  invitation.buffer_bytes = message.signature.count;
  invitation.region = message.sequence;
  Group* const group = find(name);
  if (group == nullptr || group->listener_ != nullptr || group->failure_) return;
  const auto member = std::ranges::find(group->place.ranks, from) - group->place.ranks.begin();
  if (std::cmp_less(member, group->members_.size()) &&
      group->members_[static_cast<std::size_t>(member)].is_here)
    return;  // it means the next one of that name
  if (std::cmp_less(member, group->members_.size()))
    bind(*group, static_cast<Rank>(member), message.group, invitation);
  else
    fail_making(*group, Error(ErrorKind::Mismatch,
                              fmt::format("group '{}': {} makes it as well, and is none of its {} ranks here",
                                          name, membership_.peers[from].describe(), group->members_.size()))
                            .with_culprit(from));
}

void GroupTable::bind(Group& group, Rank member, GroupNumber number, Invitation& invitation) {
  invitation.group = &group;
  invitation.member = member;
  Group::Member& state = group.members_[member];
  state.is_here = invitation.buffer_bytes != 0;  // else it only says next why it cannot
  state.has_left = invitation.is_over;
  state.buffer_bytes = invitation.buffer_bytes;
  state.agreed = invitation.agreed;
  group.place.numbers[member] = number;
  group.place.regions[member] = invitation.region;
  for (const ControlMessage& message : invitation.early)
    if (message.type == ControlMessage::Type::revoke) take_cause(group, message);
  accept(group, member);
  tell_news(group);
}

/// What a member accepts may be the invitation to a group that this rank has given up since. The group that
/// took the member's for its counterpart waits then: the member is about to hear, and accepts or invites
/// anew.
void GroupTable::take_acceptance(Rank from, GroupNumber theirs, std::uint64_t accepted) {
  Invitation& invitation = heard_[from].at(theirs);
  if (invitation.is_over || accepted > std::numeric_limits<GroupNumber>::max()) return;
  invitation.accepted = static_cast<GroupNumber>(accepted);
  const bool is_current = invitation.group != nullptr && !invitation.is_parted;
  if (is_current && invitation.group->number != invitation.accepted) {
    Group& current = *invitation.group;
    if (current.is_being_made() && !current.is_complete()) part(current, invitation);
    return;
  }
  const auto found = groups_.find(invitation.accepted);
  if (found == groups_.end() || !found->second->is_being_made() || found->second->name != invitation.name)
    return;
  Group& group = *found->second;
  const auto at = std::ranges::find(group.place.ranks, from) - group.place.ranks.begin();
  if (std::cmp_greater_equal(at, group.members_.size())) return;
  const auto member = static_cast<Rank>(at);
  if (!is_current && !group.members_[member].is_here) {
    if (invitation.is_parted) forget_parted(invitation);
    bind(group, member, theirs, invitation);
  }
  if (group.place.numbers[member] != theirs) return;
  group.members_[member].has_accepted = true;
  if (invitation.digest != group.digest_) fail_making(group, other_members(group, member));
  agree(group);
  tell_news(group);
}

void GroupTable::agree(Group& group) noexcept {
  if (!group.is_bound()) return;
  const std::uint64_t digest = digest_of(group.place.numbers);
  if (std::exchange(group.members_[group.rank].agreed, digest) == digest) return;
  ControlMessage message;
  message.type = ControlMessage::Type::agree;
  message.signature.what = digest;
  tell_members(group, message);
}

void GroupTable::take_agreement(Invitation& invitation, std::uint64_t digest) noexcept {
  invitation.agreed = digest;
  if (invitation.group == nullptr || invitation.is_parted) return;
  invitation.group->members_[invitation.member].agreed = digest;
  tell_news(*invitation.group);
}

void GroupTable::part(Group& group, Invitation& invitation) noexcept {
  Group::Member& member = group.members_[invitation.member];
  member.is_here = member.has_accepted = false;
  group.place.numbers[invitation.member] = 0;
  ++member.parted;
  invitation.is_parted = true;
}

/// Whoever sent it may use this rank's part of the heap until it says goodbye.
void GroupTable::take_word_of_parted(Rank from, Invitations::iterator at,
                                     const ControlMessage& message) noexcept {
  if (message.type != ControlMessage::Type::goodbye) return;
  forget_parted(at->second);
  heard_[from].erase(at);
}

void GroupTable::forget_parted(Invitation& invitation) noexcept {
  Group& group = *std::exchange(invitation.group, nullptr);
  invitation.is_parted = false;
  --group.members_[invitation.member].parted;
  release_if_over(group);
}

/// What is said before this rank's communicator is there; the first cause and the goodbye however much else
/// was said. One that is given up fails the making here.
void GroupTable::keep_early(Invitation& invitation, const ControlMessage& message) {
  if (invitation.is_over) return;
  const bool is_goodbye = message.type == ControlMessage::Type::goodbye;
  invitation.is_over = is_goodbye;
  if (is_goodbye && invitation.group != nullptr)
    invitation.group->members_[invitation.member].has_left = true;
  const bool is_cause = message.type == ControlMessage::Type::revoke;
  const auto is_revoke = [](const ControlMessage& said) { return said.type == ControlMessage::Type::revoke; };
  const bool is_first_cause = is_cause && std::ranges::none_of(invitation.early, is_revoke);
  if (invitation.early.size() < kMostEarly || is_goodbye || is_first_cause)
    invitation.early.push_back(message);
  if (is_cause && invitation.group != nullptr) take_cause(*invitation.group, message);
}

/// Lower numbers are older.
void GroupTable::forget_given_up(Rank from) noexcept {
  Invitations& heard = heard_[from];
  const auto is_given_up = [](const auto& entry) {
    return entry.second.is_over && entry.second.group == nullptr;
  };
  if (std::cmp_greater(std::ranges::count_if(heard, is_given_up), kMostGivenUp))
    heard.erase(std::ranges::find_if(heard, is_given_up));
}

/// Who has made it already asks who is missing: not this rank, which waits as well.
void GroupTable::answer_while_making(Rank to, const Invitation& invitation) noexcept {
  if (invitation.group == nullptr || invitation.group->is_complete()) return;
  ControlMessage waits;
  waits.type = ControlMessage::Type::status;
  waits.group = invitation.group->number;
  control_.send(to, waits);
}

}  // namespace cohort
