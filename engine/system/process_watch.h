// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/io/socket.h>

#include <cstdint>

namespace cohort {

/// A hold on a process of this host, of this program or not, that tells when it ends (a pidfd).
///
/// Whoever learned the number from elsewhere makes sure, after opening, that it still is who was meant.
/// Threads: the owning engine.
class ProcessWatch {
 public:
  /// Throws SystemError if there is no such process: it is gone, or lives in another pid namespace, which
  /// cannot be told apart. Throws ResourceLimit, and Unsupported before Linux 5.3.
  ProcessWatch(Engine& engine, std::uint32_t process);

  [[nodiscard]] std::uint32_t process() const noexcept { return process_; }
  [[nodiscard]] bool has_ended() const noexcept;
  /// Suspends until the process has ended, whether or not its parent has asked for its status yet.
  Task<> until_exit();

 private:
  friend class ChildProcess;

  Engine* engine_;
  std::uint32_t process_;
  Descriptor pidfd_;
};

}  // namespace cohort
