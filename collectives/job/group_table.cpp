// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/group_table.h>

#include <cohort/collectives/job/listen_for.h>
#include <cohort/collectives/job/resolved_options.h>
#include <cohort/collectives/schedules/ccl_buffer.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/cancel_scope.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/net/host/segment.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

/// Of what is left: some groups of full size, then smaller ones.
constexpr std::size_t kShareOfBudget = 4;

}  // namespace

/// FNV-1a (Fowler, Noll, Vo): ranks that differ are found by it, nobody who wants to deceive.
std::uint64_t GroupTable::digest_of(std::span<const std::uint32_t> numbers) noexcept {
  std::uint64_t digest = 0xcbf29ce484222325;
  const auto mix = [&](std::uint32_t value) {
    for (unsigned byte = 0; byte < sizeof value; ++byte) {
      digest ^= (value >> (8 * byte)) & 0xff;
      digest *= 0x100000001b3;
    }
  };
  mix(static_cast<std::uint32_t>(numbers.size()));
  for (const std::uint32_t number : numbers) mix(number);
  return std::max(digest, std::uint64_t{1});
}

GroupTable::GroupTable(Engine& engine, ControlPlane& control, const Membership& membership, SharedHeap* heap,
                       std::size_t budget_bytes)
    : engine_(engine),
      control_(control),
      membership_(membership),
      heap_(heap),
      budget_left_(budget_bytes),
      heard_(membership.size) {}

Task<GroupTable::Group*> GroupTable::make(const Plan& plan) {
  Group& group = begin(plan);
  bool is_late = false;
  std::optional<Error> failure;
  try {
    co_await reserve_soon(group, plan.buffer_bytes);
    invite(group);
    Task<> waiting = with_deadline(plan.timeout, until_all_are_here(group));
    co_await waiting;
  } catch (...) {
    const Error error = as_error(std::current_exception());
    is_late = error.kind() == ErrorKind::DeadlineExceeded && !group.failure_;
    const bool is_own = is_own_fault(error.kind()) && !error.culprit();
    failure =
        is_own ? error_unless_out_of_memory([&] { return error.with_culprit(membership_.rank); }) : error;
  }
  try {
    if (is_late) {
      const std::optional<Error> found = co_await failure_when_late(group, plan.timeout);
      failure = found;
    }
  } catch (const std::bad_alloc&) {
    failure = out_of_memory();
  }
  if (!failure) {
    settle_buffers(group);
    co_return &group;
  }
  if (!group.is_invited_) invite(group);  // to nothing, so that they hear why
  give_up(group, *failure);
  throw Error(*failure);
}

/// An engine that stood still comes to its deadline before it has read what others say.
Task<std::optional<Error>> GroupTable::failure_when_late(Group& group, Duration timeout) {
  const auto is_settled = [&group] { return group.failure_ || group.is_complete(); };
  // Where all have answered this rank, those who wait for another one know better, and come first.
  for (int turn = 0; turn == 0 || (turn == 1 && group.is_bound() && !is_settled()); ++turn) {
    CancelScope uncancelled;
    Task<> hearing = with_scope(uncancelled, listen_for(engine_, kNewsTime, is_settled));
    co_await hearing;
  }
  if (group.failure_) co_return group.failure_;
  if (group.is_complete()) co_return std::nullopt;
  co_return not_made_in_time(group, timeout);
}

GroupTable::Group& GroupTable::begin(const Plan& plan) {
  COHORT_ASSERT(plan.name.size() <= kMostName, "a group's name has {} characters", plan.name.size());
  if (find(plan.name) != nullptr)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("there is a group '{}' on this rank already: find it by find_group(), or close it "
                    "first",
                    plan.name));
  if (groups_.size() >= kMostGroups)
    throw Error(
        ErrorKind::ResourceLimit,
        fmt::format("group '{}' cannot be made: there are {} already; close some on all of their ranks",
                    plan.name, groups_.size()));
  const GroupNumber number = next_number();
  Group& group = *groups_.emplace(number, std::make_unique<Group>()).first->second;
  group.number = number;
  try {
    fill(group, plan);
  } catch (...) {
    for (Invitations& heard : heard_)
      for (auto& [their_number, invitation] : heard)
        if (invitation.group == &group) invitation.group = nullptr;
    groups_.erase(number);
    throw;
  }
  return group;
}

void GroupTable::fill(Group& group, const Plan& plan) {
  group.name = plan.name;
  const auto size = static_cast<Rank>(plan.ranks.size());
  group.rank = static_cast<Rank>(std::ranges::find(plan.ranks, membership_.rank) - plan.ranks.begin());
  COHORT_ASSERT(group.rank < size, "rank {} makes a group that it is not in", membership_.rank);
  group.digest_ = digest_of(plan.ranks);
  group.place = {plan.ranks, std::vector<GroupNumber>(size), std::vector<std::uint64_t>(size)};
  group.place.numbers[group.rank] = group.number;
  group.members_.resize(size);
  Group::Member& self = group.members_[group.rank];
  self.is_here = self.has_accepted = self.has_left = true;
  for (Rank member = 0; member < size; ++member) {
    const Rank rank = plan.ranks[member];
    if (rank == membership_.rank) continue;
    const auto found = std::ranges::find_if(heard_[rank], [&group](const auto& entry) {
      const Invitation& invitation = entry.second;
      return invitation.group == nullptr && invitation.accepted == 0 && invitation.name == group.name;
    });
    if (found != heard_[rank].end()) bind(group, member, found->first, found->second);
    if (!control_.is_reached(rank))
      fail_making(group, gone(group, member, control_.said_goodbye(rank) && !has_died(rank)));
  }
}

/// After 2^32 groups old ones come again.
GroupNumber GroupTable::next_number() noexcept {
  do ++last_number_;
  while (last_number_ == 0 || groups_.contains(last_number_));
  return last_number_;
}

/// Buffers that two groups took in turns would be waited for, in one order here and in another one there: so
/// each has its own. The budget bounds what is beyond the least, which no group goes without: with that any
/// message is right, in more pieces.
void GroupTable::reserve(Group& group, std::size_t buffer_bytes) {
  const auto ranks = static_cast<Rank>(group.members_.size());
  const std::size_t share = budget_left_ / kShareOfBudget / kBufferGrain * kBufferGrain;
  const std::size_t least = least_buffer_bytes(ranks);
  std::size_t bytes = std::min(buffer_bytes, std::max(share, least));
  if (heap_ != nullptr) {
    std::optional<std::size_t> region = reserve_region(ranks, bytes, bytes > least);
    if (!region) region = reserve_region(ranks, bytes = least, false);
    group.place.regions[group.rank] = *region;
    group.has_region_ = true;
  }
  group.members_[group.rank].buffer_bytes = bytes;
  group.budgeted_bytes_ = std::min(2 * bytes, budget_left_);
  budget_left_ -= group.budgeted_bytes_;
}

/// Nothing, where there is no room and the caller knows what to do: else throws ResourceLimit.
std::optional<std::size_t> GroupTable::reserve_region(Rank ranks, std::size_t buffer_bytes, bool may_fail) {
  try {
    return heap_->reserve(host::Layout::of_group(ranks, buffer_bytes).size_bytes());
  } catch (const Error& error) {
    if (!may_fail || error.kind() != ErrorKind::ResourceLimit) throw;
  }
  return std::nullopt;
}

Task<> GroupTable::reserve_soon(Group& group, std::size_t buffer_bytes) {
  const TimePoint until = engine_.now() + kNewsTime;
  for (;;) {
    try {
      reserve(group, buffer_bytes);
      co_return;
    } catch (const Error&) {
      const auto is_leaving = [](const auto& entry) { return !entry.second->is_open_; };
      if (engine_.now() >= until || std::ranges::none_of(groups_, is_leaving)) throw;
    }
    co_await engine_.sleep_for(kLookInterval);
  }
}

void GroupTable::tell_members(const Group& group, ControlMessage message) noexcept {
  message.group = group.number;
  for (const Rank rank : group.place.ranks)
    if (rank != membership_.rank) control_.send(rank, message);
}

/// What is said of a group names its ranks by their ranks there; what is thrown before it is made does not.
void GroupTable::take_cause(Group& group, const ControlMessage& revoke) {
  const Error cause = revoke.cause();
  const bool is_known = cause.culprit() && *cause.culprit() < group.place.ranks.size();
  fail_making(group, is_known ? cause.with_culprit(group.place.ranks[*cause.culprit()]) : cause);
}

void GroupTable::deliver(Group& group, Rank member, const ControlMessage& message) {
  if (group.listener_ != nullptr) group.listener_->on_group_control(member, message);
  if (message.type != ControlMessage::Type::goodbye) return;
  group.members_[member].has_left = true;
  heard_[group.place.ranks[member]].erase(message.group);
  if (group.listener_ != nullptr) group.listener_->on_group_departure(member, true, message.sequence);
  release_if_over(group);
}

void GroupTable::fail_making(Group& group, Error error) {
  if (!group.failure_) group.failure_ = std::move(error);
  tell_news(group);
}

void GroupTable::tell_news(Group& group) noexcept {
  if (group.news_.untaken_posts() == 0) group.news_.post();
}

Task<> GroupTable::until_all_are_here(Group& group) {
  for (;;) {
    if (group.failure_) throw Error(*group.failure_);
    if (group.is_complete()) co_return;
    co_await group.news_.wait();
  }
}

void GroupTable::settle_buffers(Group& group) noexcept {
  std::uint64_t least = group.members_[group.rank].buffer_bytes;
  for (const Group::Member& member : group.members_) least = std::min(least, member.buffer_bytes);
  group.buffer_bytes = std::max(least / kBufferGrain * kBufferGrain, kBufferGrain);
  const auto ranks = static_cast<Rank>(group.members_.size());
  try {  // others have less room: what is behind their buffers nobody will use
    if (group.has_region_)
      heap_->shorten(group.place.regions[group.rank],
                     host::Layout::of_group(ranks, group.buffer_bytes).size_bytes());
  } catch (const std::bad_alloc&) {  // then it is only address space that is lost
  }
  const std::size_t used = std::min(group.budgeted_bytes_, 2 * group.buffer_bytes);
  budget_left_ += std::exchange(group.budgeted_bytes_, used) - used;
}

void GroupTable::give_up(Group& group, const Error& cause) noexcept {
  const auto& ranks = group.place.ranks;
  const auto found = std::ranges::find(ranks, cause.culprit().value_or(membership_.rank));
  const Rank culprit = found == ranks.end() ? group.rank : static_cast<Rank>(found - ranks.begin());
  ControlMessage revoke = ControlMessage::revoke(cause, membership_.rank);
  revoke.culprit = culprit;
  tell_members(group, revoke);
  ControlMessage goodbye;
  goodbye.type = ControlMessage::Type::goodbye;
  tell_members(group, goodbye);
  for (Group::Member& member : group.members_) member.has_left |= !member.is_here;
  leave(group);
}

void GroupTable::attach(Group& group, Listener& listener) noexcept {
  group.listener_ = &listener;
  for (Rank member = 0; member < group.members_.size(); ++member) {
    if (member == group.rank) continue;
    const Rank rank = group.place.ranks[member];
    const auto found = heard_[rank].find(group.place.numbers[member]);
    if (found == heard_[rank].end()) {
      listener.on_group_departure(member, false, 0);
      continue;
    }
    const std::vector<ControlMessage> early = std::exchange(found->second.early, {});
    for (const ControlMessage& message : early) deliver(group, member, message);
  }
}

void GroupTable::leave(Group& group) noexcept {
  group.listener_ = nullptr;
  group.is_open_ = false;
  for (Rank member = 0; member < group.members_.size(); ++member) {
    Invitations& heard = heard_[group.place.ranks[member]];
    if (group.members_[member].has_left)
      std::erase_if(
          heard, [&](const auto& entry) { return entry.second.group == &group && !entry.second.is_parted; });
  }
  release_if_over(group);
}

/// Ends the group's part here when nobody can reach it any more.
void GroupTable::release_if_over(Group& group) noexcept {
  const auto has_left = [](const Group::Member& member) { return member.has_left && member.parted == 0; };
  if (group.is_open_ || !std::ranges::all_of(group.members_, has_left)) return;
  if (group.has_region_) heap_->give_back(group.place.regions[group.rank]);
  budget_left_ += group.budgeted_bytes_;
  for (const Rank rank : group.place.ranks)
    std::erase_if(heard_[rank], [&](const auto& entry) { return entry.second.group == &group; });
  groups_.erase(group.number);
}

void GroupTable::on_end(Rank peer, bool said_goodbye) noexcept {
  const auto for_each_with_peer = [&](const auto& body) {
    for (auto next = groups_.begin(); next != groups_.end();) {
      Group& group = *(next++)->second;  // it may be over by what is done
      const auto at = std::ranges::find(group.place.ranks, peer) - group.place.ranks.begin();
      if (std::cmp_less(at, group.members_.size())) body(group, static_cast<Rank>(at));
    }
  };
  // Who leaves in order has left its groups before it ends, and not only the communicator that was joined.
  for_each_with_peer([said_goodbye](Group& group, Rank at) {
    Group::Member& member = group.members_[at];
    member.has_died = !said_goodbye || (member.is_here && !member.has_left);
    member.parted = 0;
  });
  const bool has_left_in_order = !has_died(peer);
  // What a rank that left in order has said counts for those who do not know yet whether all are here.
  std::erase_if(heard_[peer], [](const auto& entry) {
    const Group* const group = entry.second.group;
    const bool is_making = group == nullptr || (group->listener_ == nullptr && group->is_open_);
    return !(entry.second.is_over && is_making);
  });
  for_each_with_peer([&](Group& group, Rank member) {
    const bool had_left = std::exchange(group.members_[member].has_left, true);
    if (group.listener_ != nullptr && !had_left)
      group.listener_->on_group_departure(member, false, 0);
    else if (group.listener_ == nullptr && group.is_open_ && !had_left)
      fail_making(group, error_unless_out_of_memory([&] { return gone(group, member, has_left_in_order); }));
    release_if_over(group);
  });
}

bool GroupTable::has_died(Rank rank) const noexcept {
  return std::ranges::any_of(groups_, [rank](const auto& entry) {
    const Group& group = *entry.second;
    const auto at = std::ranges::find(group.place.ranks, rank) - group.place.ranks.begin();
    return std::cmp_less(at, group.members_.size()) && group.members_[static_cast<std::size_t>(at)].has_died;
  });
}

bool GroupTable::is_in_use() const noexcept {
  return std::ranges::any_of(groups_, [](const auto& entry) { return entry.second->is_open_; });
}

bool GroupTable::is_making(Rank peer, GroupNumber number) const noexcept {
  const auto found = heard_[peer].find(number);
  if (found == heard_[peer].end()) return false;
  const Group* const group = found->second.group;
  return group != nullptr && group->is_being_made();
}

GroupTable::Group* GroupTable::find(std::string_view name) noexcept {
  for (const auto& [number, group] : groups_)
    if (group->is_open_ && group->name == name) return group.get();
  return nullptr;
}

void GroupTable::fail_all(const Error& error) noexcept {
  for (const auto& [number, group] : groups_) {
    if (group->listener_ != nullptr)
      group->listener_->on_group_failure(error);
    else if (group->is_open_)
      fail_making(*group, error);
  }
}

GroupPlace place_of_root(Rank size) {
  GroupPlace place;
  place.numbers.resize(size);
  place.regions.resize(size);
  for (Rank rank = 0; rank < size; ++rank) place.ranks.push_back(rank);
  return place;
}

Membership membership_in(const Membership& root, const GroupTable::Group& group) {
  Membership membership;
  membership.name = group.name;
  membership.job = root.job;
  membership.rank = group.rank;
  membership.size = static_cast<Rank>(group.place.ranks.size());
  membership.incarnation = root.incarnation;
  for (Rank member = 0; member < membership.size; ++member) {
    const Rank rank = group.place.ranks[member];
    PeerInfo& info = membership.peers.emplace_back(root.peers[rank]);
    info.rank = member;
    info.world_rank = rank;
  }
  return membership;
}

}  // namespace cohort
