// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/net/host/host_group.h>

#include <span>

namespace cohort::host {

/// The one way to memory that may be a peer's user's: in its segment (allocate(), register_buffer()),
/// anywhere in this process, or where the kernel copies. In every transport it is read and written between
/// begin() and end() only. Slots, stages and CCL buffers are the communicator's, and need none.
///
/// A rank whose call fails withdraws its memory, waits for touches, 5 s at most, and uses it anew. So end()
/// comes before this rank tells anybody that it is through (a phase, a counter, a packet): until then the
/// owner's call is not over, and a withdrawal belongs to it.
///
/// Who finds one goes no further: it waits for the cause, which ends the call as its deadline does.
///
/// Threads: the engine's. Lifetime: the group outlives it. Costs a store at each end and a look at each
/// owner.
class Touch : Immovable {
 public:
  /// What has not ended was in vain.
  ~Touch() {
    if (group_ != nullptr) group_->end_touching();
  }

  /// Of memory of any rank of the group. False, and nothing may be touched, if one has withdrawn its own.
  [[nodiscard]] bool begin(HostGroup& group) noexcept { return begin(group, group.members()); }
  /// Of that rank's memory alone.
  [[nodiscard]] bool begin(HostGroup& group, Rank owner) noexcept {
    owner_ = owner;
    return begin(group, std::span(&owner_, 1));
  }
  /// Amid it, after others have had the engine: false, and nothing more may be touched, if it was withdrawn.
  [[nodiscard]] bool may_go_on() const noexcept { return !group_->is_any_withdrawn(owners_); }
  /// After the last byte. False: it was withdrawn meanwhile, and what was read may be torn.
  [[nodiscard]] bool end() noexcept {
    const bool is_whole = may_go_on();
    group_->end_touching();
    group_ = nullptr;
    return is_whole;
  }

 private:
  [[nodiscard]] bool begin(HostGroup& group, std::span<const Rank> owners) noexcept {
    if (!group.begin_touching(owners)) return false;
    group_ = &group;
    owners_ = owners;
    return true;
  }

  HostGroup* group_ = nullptr;
  Rank owner_ = 0;
  std::span<const Rank> owners_;
};

}  // namespace cohort::host
