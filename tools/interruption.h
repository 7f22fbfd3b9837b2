// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>

#include <csignal>

namespace cohort {

/// Lets a command stop at the next step and print what it has so far: while there is one, the first Ctrl-C is
/// only noted. The second one ends the process, as ever.
class Interruption : Immovable {
 public:
  Interruption() noexcept;
  ~Interruption();

  /// Threads: any.
  [[nodiscard]] static bool is_wanted() noexcept;

 private:
  struct sigaction before_ {};
};

/// The status of a command that ended so.
inline constexpr int kInterruptedStatus = 128 + SIGINT;

}  // namespace cohort
