// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/engine/io/socket.h>

#include <cstddef>
#include <cstdint>

namespace cohort {

/// Kills process groups when this process ends without having said so, even by SIGKILL.
///
/// The parent-death signal reaches only children, not what they start; the guard is a small process with a
/// connection to this one; when that ends it kills every group that it was told. Make it before the groups
/// and destroy it after they have ended: its destructor stands it down and waits for it to exit.
class ProcessGuard : Immovable {
 public:
  /// For at most so many groups. Throws ResourceLimit or SystemError.
  explicit ProcessGuard(std::size_t most_groups);
  ~ProcessGuard();

  /// Async-signal-safe: ChildProcess calls it between fork and exec, with its own number.
  void add(std::uint32_t group) noexcept;

 private:
  void tell(std::uint32_t word) noexcept;

  Descriptor channel_;
  int guard_ = -1;
};

}  // namespace cohort
