// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/system/shared_memory.h>
#include <cohort/net/membership.h>

#include <optional>
#include <vector>

namespace cohort::host {

/// For ranks of a host that have no segment in common: a page of each, in which it says where it runs, for
/// Engine::may_spin_on().
///
/// Made for the first peer that can use it: none where ranks have to take turns anyway. A rank that can have
/// no such memory does without. Threads: the engine's.
class CorePages : Immovable {
 public:
  CorePages(Engine& engine, const Membership& membership) noexcept
      : engine_(engine), membership_(membership) {}

  /// What that peer must be given: the page, or nothing.
  [[nodiscard]] std::vector<int> descriptors_for(Rank peer);
  /// Takes a peer's. Throws ProtocolError if it is no such page.
  void adopt(Rank peer, std::vector<Descriptor> descriptors);

 private:
  [[nodiscard]] bool may_share_core(Rank peer) const;
  void make_own();

  Engine& engine_;
  const Membership& membership_;
  bool is_made_ = false;
  SharedMemory own_;
  std::vector<SharedMemory> peers_;
  std::optional<CoreGroup> group_;
};

}  // namespace cohort::host
