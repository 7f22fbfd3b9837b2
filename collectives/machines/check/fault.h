// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/task_record.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cohort::check {

/// Where a task stands.
struct TaskPlace {
  std::uint32_t operation = 0;  ///< of those in a row, from 1
  Rank rank = 0;
  std::string stream;        ///< "main stream", "stream 3"
  std::uint32_t number = 0;  ///< in its stream, from 1
  std::uint32_t forks = 0;   ///< that its stream has joined before
};

enum class Fate : std::uint8_t {
  keep,
  drop,   ///< it completes at once and does nothing
  twice,  ///< it is carried out, and once more
};

/// What becomes of a task.
struct Fated {
  Fated(Fate of) : fate(of) {}  // NOLINT(google-explicit-constructor)

  Fate fate;
  /// Carried out after it, in its place and under its number. What waits can follow only what can wait, and a
  /// wait for a Notify only another one.
  std::vector<TaskRequest> then;
};

/// A fault planted into schedules: sees each task before it is carried out, and may alter it. For tests of
/// the checker.
using Fault = std::function<Fated(const TaskPlace& place, TaskRequest& request)>;

}  // namespace cohort::check
