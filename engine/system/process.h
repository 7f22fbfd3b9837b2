// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/pipe.h>
#include <cohort/engine/system/process_watch.h>
#include <cohort/engine/system/signals.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// The number of this process, in its own pid namespace.
[[nodiscard]] std::uint32_t current_process() noexcept;

/// Opens the descriptors 0 to 2 on /dev/null where this process was started without them, so that nothing
/// opened later is taken for standard output. For main().
void open_standard_descriptors() noexcept;

/// How a process ended.
struct ExitStatus {
  int code = 0;    ///< what it returned, if no signal ended it
  int signal = 0;  ///< the signal that ended it, or 0
  bool has_core = false;

  [[nodiscard]] bool is_success() const noexcept { return code == 0 && signal == 0; }
  /// As shells report it: 128 + signal.
  [[nodiscard]] int shell_status() const noexcept { return signal != 0 ? 128 + signal : code; }
  /// "exited with status 3", "was killed by SIGSEGV (Segmentation fault), core dumped".
  /// Of several processes: "were killed by".
  [[nodiscard]] std::string describe(std::size_t processes = 1) const;

  friend auto operator<=>(const ExitStatus&, const ExitStatus&) = default;
};

class ProcessGuard;

struct SpawnOptions {
  /// The program, by path or as found in PATH, and its arguments.
  std::vector<std::string> command = {};
  /// Variables set on top of this process's environment.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// Descriptors of this process that the program gets, under the same numbers; none of 0 to 2.
  std::vector<int> inherited = {};
  /// Told of the program's process group before it runs, so that no moment is left in which it could be
  /// missed.
  ProcessGuard* guard = nullptr;
  /// Whether take_output() and take_errors() give pipes; otherwise the program writes where this process
  /// does.
  bool has_output_pipes = false;
  /// Whether take_input() gives a pipe to its standard input; otherwise that is empty.
  bool has_input_pipe = false;
};

/// A program that was started from here, together with what it starts in turn (its process group).
///
/// It reads nothing from standard input unless there is a pipe, starts with no signal blocked, and is killed
/// when the thread that started it ends, however that happens. It stays a zombie until this object dies, so
/// that its numbers cannot come to mean a stranger.
///
/// Threads: the owning engine's. The destructor kills the whole group and waits for the kernel to end the
/// program, which takes microseconds; wait() first for an orderly end.
class ChildProcess {
 public:
  /// Returns when the program runs. Throws InvalidArgument naming a program that cannot be run and why, or
  /// ResourceLimit, or SystemError; then there is no process.
  [[nodiscard]] static ChildProcess spawn(Engine& engine, const SpawnOptions& options);

  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  [[nodiscard]] std::uint32_t id() const noexcept { return watch_.process(); }
  [[nodiscard]] bool has_ended() const noexcept { return watch_.has_ended(); }
  /// Suspends until the program has ended; what it started may still run. May be called again.
  Task<ExitStatus> wait();
  /// To the program and all of its group; nothing if all have ended.
  void signal(ProcessSignal signal) noexcept;

  /// Its standard output and standard error, with has_output_pipes; to be taken once.
  [[nodiscard]] PipeReader take_output() noexcept { return std::move(output_); }
  [[nodiscard]] PipeReader take_errors() noexcept { return std::move(errors_); }
  /// The end to write to, with has_input_pipe; to be taken once.
  [[nodiscard]] Descriptor take_input() noexcept { return std::move(input_); }

 private:
  explicit ChildProcess(ProcessWatch watch) noexcept : watch_(std::move(watch)) {}

  ProcessWatch watch_;
  PipeReader output_;
  PipeReader errors_;
  Descriptor input_;
};

}  // namespace cohort
