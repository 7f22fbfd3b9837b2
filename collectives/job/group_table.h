// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/engine/engine.h>
#include <cohort/net/control_plane.h>
#include <cohort/net/transport.h>
#include <cohort/notify/notify.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cohort {

class CommunicatorCore;

/// The groups within a communicator that was joined, on the side of one rank: made together with their other
/// members, over the control connections that there are.
///
/// Each member sends every other one an invitation: the group's name and ranks, its own number for it, where
/// its part of the segment lies, how large buffers may be. Each accepts one invitation of every other one,
/// with its own number. When all have accepted its own with that, it tells them the numbers of all, and is
/// done when all have told the same. Nobody decides, and groups do not wait for each other.
///
/// Of groups of one name that are given up and made again, only those meet that all agree on. What a member
/// says of a group bears its own number, which it uses for no other one.
///
/// A region is used again when every member whose invitation was accepted has left the group, since until
/// then it may write there.
///
/// Ranks are those of the communicator that was joined, unless it says otherwise. Threads: the engine's.
/// Lifetime: what it refers to outlives it; no group is in use when it ends.
class GroupTable final : public ControlPlane::GroupHandler, Immovable {
 public:
  /// A group's communicator, which hears of its members. Ranks are the group's.
  class Listener {
   public:
    virtual void on_group_control(Rank from, const ControlMessage& message) noexcept = 0;
    virtual void on_group_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence) noexcept = 0;
    /// What this rank needs for all of its communicators has failed.
    virtual void on_group_failure(const Error& error) noexcept = 0;

   protected:
    ~Listener() = default;
  };

  /// What is to be made.
  struct Plan {
    std::string name;              ///< printable ASCII, at most kMostName characters
    std::vector<Rank> ranks;       ///< by rank of the group: which rank it is; this one is among them
    std::size_t buffer_bytes = 0;  ///< of each CCL buffer, at most
    Duration timeout{0};
  };
  static constexpr std::size_t kMostName = 400;

  /// A group on this rank, from its making until every member has left.
  struct Group {
    std::string name;
    Rank rank = 0;  ///< this rank's in it
    GroupNumber number = 0;
    GroupPlace place;
    std::size_t buffer_bytes = 0;  ///< what all have room for
    std::weak_ptr<CommunicatorCore> handle;

   private:
    friend class GroupTable;
    struct Member {
      bool is_here = false;       ///< has invited this rank, which accepts that
      bool has_accepted = false;  ///< this rank's invitation, with the one that is_here is of
      std::uint64_t agreed = 0;   ///< digest of the numbers of all, as it told them; 0: it has not
      bool has_left = false;
      bool has_died = false;           ///< has ended, and had not left
      std::uint64_t buffer_bytes = 0;  ///< that it has room for
      std::size_t parted = 0;          ///< invitations of its that are parted from the group, and not over

      [[nodiscard]] bool is_bound() const noexcept { return is_here && has_accepted; }
    };
    bool is_open_ = true;  ///< until leave()
    bool has_region_ = false;
    bool is_invited_ = false;  ///< the members
    std::uint64_t digest_ = 0;
    std::size_t budgeted_bytes_ = 0;
    std::vector<Member> members_;
    Listener* listener_ = nullptr;
    std::optional<Error> failure_;
    Notify news_;

    [[nodiscard]] bool is_being_made() const noexcept {
      return listener_ == nullptr && is_open_ && !failure_;
    }
    /// All have invited this rank, and accepted its invitation.
    [[nodiscard]] bool is_bound() const noexcept { return std::ranges::all_of(members_, &Member::is_bound); }
    /// And all mean the same ones.
    [[nodiscard]] bool is_complete() const noexcept {
      const std::uint64_t own = members_[rank].agreed;
      return own != 0 && std::ranges::all_of(members_, [own](const Member& member) {
               return member.is_bound() && member.agreed == own;
             });
    }
  };

  /// `budget_bytes`: what the CCL buffers of all groups take together, but for the least of each. `heap`:
  /// where regions come from; null: no peer maps this rank's memory.
  GroupTable(Engine& engine, ControlPlane& control, const Membership& membership, SharedHeap* heap,
             std::size_t budget_bytes);

  /// Makes a group, which is open then. Throws InvalidArgument, Mismatch, PeerDied, PeerAborted,
  /// ResourceLimit, DeadlineExceeded naming who has not come; the other members, too, are given the cause.
  Task<Group*> make(const Plan& plan);
  /// This rank cannot take part after all: leaves, and tells the others why. The reference is of no use
  /// afterwards.
  void give_up(Group& group, const Error& cause) noexcept;
  /// From now on it hears what is said; first what was said before.
  void attach(Group& group, Listener& listener) noexcept;
  /// This rank has said goodbye to the group. The reference is of no use afterwards.
  void leave(Group& group) noexcept;

  [[nodiscard]] bool is_in_use() const noexcept;
  /// Whether `number` is the peer's of a group that is being made here.
  [[nodiscard]] bool is_making(Rank peer, GroupNumber number) const noexcept;
  [[nodiscard]] Group* find(std::string_view name) noexcept;
  /// Tells all groups.
  void fail_all(const Error& error) noexcept;

  // ControlPlane::GroupHandler:
  void on_group_message(Rank from, const ControlMessage& message) override;
  void on_end(Rank peer, bool said_goodbye) noexcept override;

 private:
  /// What a peer has said of a group of its own, by its number there.
  struct Invitation {
    std::string name;
    std::uint64_t digest = 0;
    std::uint64_t region = 0;
    std::uint64_t buffer_bytes = 0;
    Group* group = nullptr;  ///< this rank's, once it makes it
    Rank member = 0;
    bool is_over = false;      ///< its sender has given it up
    GroupNumber accepted = 0;  ///< this rank's, which its sender accepts last
    std::uint64_t agreed = 0;  ///< what its sender says that all have accepted
    bool is_parted = false;    ///< from `group`, which had accepted it: its sender accepts another one
    std::vector<ControlMessage> early;
  };
  using Invitations = std::map<GroupNumber, Invitation>;

  Group& begin(const Plan& plan);
  [[nodiscard]] GroupNumber next_number() noexcept;
  void reserve(Group& group, std::size_t buffer_bytes);
  [[nodiscard]] std::optional<std::size_t> reserve_region(Rank ranks, std::size_t buffer_bytes,
                                                          bool may_fail);
  /// The same after what others are about to leave has become free, if that helps.
  Task<> reserve_soon(Group& group, std::size_t buffer_bytes);
  void invite(Group& group) noexcept;
  void take_invitation(Rank from, const ControlMessage& message);
  /// Tells the member that its invitation is the group's, once this rank has invited it; of a group that has
  /// failed, too, so that what the member says of its own is not taken for news.
  void accept(const Group& group, Rank member) noexcept;
  /// Binds what accepts a group of this rank's to it, or parts what accepts another one.
  void take_acceptance(Rank from, GroupNumber theirs, std::uint64_t accepted);
  void take_agreement(Invitation& invitation, std::uint64_t digest) noexcept;
  /// Tells all which groups of theirs this one is made with, when all have accepted it.
  void agree(Group& group) noexcept;
  /// The member's invitation is not the group's any more, which waits for another one.
  static void part(Group& group, Invitation& invitation) noexcept;
  /// Its sender does not use this rank's part of the heap, or any longer. The former group may end by it.
  void forget_parted(Invitation& invitation) noexcept;
  /// Of what its sender says of a parted one, only the goodbye counts.
  void take_word_of_parted(Rank from, Invitations::iterator at, const ControlMessage& message) noexcept;
  /// Gives a new group its members, and what was heard of it from them.
  void fill(Group& group, const Plan& plan);
  void bind(Group& group, Rank member, GroupNumber number, Invitation& invitation);
  /// But the last ones.
  void forget_given_up(Rank from) noexcept;
  void answer_while_making(Rank to, const Invitation& invitation) noexcept;
  void keep_early(Invitation& invitation, const ControlMessage& message);
  void deliver(Group& group, Rank member, const ControlMessage& message);
  void fail_making(Group& group, Error error);
  void take_cause(Group& group, const ControlMessage& revoke);
  Task<> until_all_are_here(Group& group);
  /// After the deadline: what is known when all has been read that others have said by then.
  Task<std::optional<Error>> failure_when_late(Group& group, Duration timeout);
  static void tell_news(Group& group) noexcept;
  [[nodiscard]] static std::uint64_t digest_of(std::span<const std::uint32_t> numbers) noexcept;
  void settle_buffers(Group& group) noexcept;
  void release_if_over(Group& group) noexcept;
  void tell_members(const Group& group, ControlMessage message) noexcept;
  [[nodiscard]] Error not_made_in_time(const Group& group, Duration timeout) const;
  [[nodiscard]] bool has_died(Rank rank) const noexcept;
  [[nodiscard]] Error gone(const Group& group, Rank member, bool has_left) const;
  [[nodiscard]] Error other_members(const Group& group, Rank member) const;

  Engine& engine_;
  ControlPlane& control_;
  const Membership& membership_;
  SharedHeap* const heap_;
  std::size_t budget_left_;
  GroupNumber last_number_ = 0;
  std::map<GroupNumber, std::unique_ptr<Group>> groups_;
  std::vector<Invitations> heard_;  ///< by sender
};

/// Everybody in his own place: that of a root in itself.
[[nodiscard]] GroupPlace place_of_root(Rank size);
/// What a group's ranks know of each other, who have joined the root. Without connections or secret.
[[nodiscard]] Membership membership_in(const Membership& root, const GroupTable::Group& group);

}  // namespace cohort
