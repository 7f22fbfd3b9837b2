// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>

#include <chrono>
#include <cstdio>
#include <string_view>

namespace cohort {

/// A line of a terminal that says how far something is; where the file is no terminal, nothing.
///
/// Threads: one at a time. Lifetime: the file outlives it.
class ProgressLine : Immovable {
 public:
  explicit ProgressLine(std::FILE* file);
  ~ProgressLine() { clear(); }

  /// Whether now is the time for another text: on a terminal, a few times a second.
  [[nodiscard]] bool is_due() const noexcept;
  /// In place of what stands there.
  void show(std::string_view text);
  /// For whatever else is printed.
  void clear();

 private:
  std::FILE* const file_;
  const bool is_terminal_;
  std::size_t width_ = 0;  ///< of what stands there
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace cohort
