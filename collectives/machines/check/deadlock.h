// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/machine.h>

namespace cohort::check {

/// Says why nothing goes on any more: who waits for somebody that has left, or else who waits for whom in a
/// circle.
class Deadlock {
 public:
  explicit Deadlock(Machine& machine);

  /// Adds findings to the machine.
  void explain();

 private:
  /// The rank without which the task cannot end; its own for a Notify.
  [[nodiscard]] Rank awaited(const TaskRecord& task) const;
  [[nodiscard]] bool has_left(Rank rank, std::uint32_t operation) const;
  [[nodiscard]] bool is_hopeless(TaskId id) const;
  [[nodiscard]] std::string why_hopeless(TaskId id) const;
  /// What stands before the awaited signal or reply on its way, if anything does.
  [[nodiscard]] const Message* obstacle(const TaskRecord& task) const;
  void explain_circle();
  /// A blocked task of the rank, or none.
  [[nodiscard]] const TaskId* blocked_of(Rank rank) const;

  Machine& machine_;
  std::vector<TaskId> blocked_;
  std::vector<StreamId> elsewhere_;  ///< wait for something that is not the machine's
};

}  // namespace cohort::check
