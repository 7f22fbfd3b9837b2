// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/communicator_options.h>
#include <cohort/collectives/job/group_table.h>
#include <cohort/collectives/job/health.h>
#include <cohort/collectives/job/resources.h>
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/control_plane.h>

#include <memory>
#include <optional>

namespace cohort {

class CommunicatorCore;

/// What a communicator that was joined, the root, shares with its groups: what costs connections and memory,
/// and what its ranks found as they joined.
///
/// Threads: the engine's. Lifetime: the root makes it, and it reports to the root. Each group owns it by a
/// pointer that owns the root with it, which therefore serves on after it was closed, until its last group
/// is.
class Job : Immovable {
 public:
  /// What the ranks know of each other's hosts since they joined. What is measured later they do not know at
  /// the same moment: who begins something beside the calls, such as a group, goes by this.
  struct AsJoined {
    Reach reach{};
    bool measures_again = false;
  };
  /// Of a rank that leaves, where the others have failed it.
  static constexpr Duration kPatience = std::chrono::seconds(2);

  /// All are the root's; `health` and `services` are not touched before serve().
  Job(Engine& engine, Membership& membership, Health& health, TaskScope& services,
      const CommunicatorOptions& options);

  /// Once the root has its resources: where the heap and the groups' buffers lie.
  void serve(Resources& resources);
  void set_root(std::weak_ptr<CommunicatorCore> root) noexcept { root_ = std::move(root); }
  void set_as_joined(const AsJoined& as_joined) { as_joined_ = as_joined; }

  [[nodiscard]] std::shared_ptr<CommunicatorCore> root() const noexcept { return root_.lock(); }
  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }
  [[nodiscard]] const CommunicatorOptions& options() const noexcept { return options_; }
  [[nodiscard]] const AsJoined& as_joined() const noexcept { return as_joined_; }
  [[nodiscard]] double ranks_per_core() const { return membership_.engines_per_core(); }
  [[nodiscard]] ControlPlane& plane() noexcept { return plane_; }
  [[nodiscard]] const std::shared_ptr<SharedHeap>& heap() const noexcept { return heap_; }
  // After serve():
  [[nodiscard]] GroupTable& groups() noexcept { return *groups_; }
  [[nodiscard]] PeerTransports& transports() noexcept { return *transports_; }

  // A communicator of the job has said goodbye. The last one ends what they share.
  Task<> root_has_left();
  /// The reference is of no use afterwards.
  Task<> group_has_left(GroupTable::Group& group);
  /// One that was being made is not.
  Task<> group_was_given_up() { return end_if_unused(); }
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }

 private:
  Task<> end_if_unused();
  Task<> let_goodbyes_leave();

  Engine& engine_;
  Membership& membership_;
  Health& health_;
  TaskScope& services_;
  const CommunicatorOptions options_;
  std::weak_ptr<CommunicatorCore> root_;
  ControlPlane plane_;
  const std::shared_ptr<SharedHeap> heap_;
  std::optional<GroupTable> groups_;
  PeerTransports* transports_ = nullptr;
  AsJoined as_joined_;
  bool has_root_left_ = false;
  bool is_over_ = false;
};

}  // namespace cohort
