// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cohort::bindings {

/// Tells an object whether it is in a child of fork() that copied it, where its threads and whoever held its
/// locks are not. Threads: any.
class ForkDetector {
 public:
  ForkDetector() noexcept;
  /// Whether this is a child of the process that made the object.
  [[nodiscard]] bool is_child() const noexcept;

 private:
  unsigned generation_;  ///< of processes: counted up in children
};

}  // namespace cohort::bindings
