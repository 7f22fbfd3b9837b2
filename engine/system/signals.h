// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/io/socket.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace cohort {

/// The signals that are sent and awaited here, by their numbers.
enum class ProcessSignal : int {
  hang_up = 1,
  interrupt = 2,
  kill = 9,
  terminate = 15,
  resume = 18,
  stop = 19,
};

/// "SIGTERM"; "signal 99" if it has no name.
[[nodiscard]] std::string signal_name(int number);
[[nodiscard]] inline std::string signal_name(ProcessSignal signal) {
  return signal_name(static_cast<int>(signal));
}

/// Signals to this process as values to await instead of an end of it, for as long as the object lives.
///
/// Those that the process was started to ignore (nohup, a job in the background of a script) stay ignored.
/// Threads: the owning engine; threads that run already keep taking signals their own way, so make it before
/// they start.
class Signals : Immovable {
 public:
  /// Throws SystemError or ResourceLimit.
  Signals(Engine& engine, std::initializer_list<ProcessSignal> which);
  /// What arrived and was not awaited takes its usual effect now.
  ~Signals();

  /// The next one. At most one waiter.
  Task<ProcessSignal> next();

 private:
  Engine& engine_;
  Descriptor descriptor_;
  std::uint64_t blocked_here_ = 0;  ///< bit n: signal n was let through before
};

}  // namespace cohort
