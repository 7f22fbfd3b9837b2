// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/pipe.h>
#include <cohort/notify/event.h>
#include <cohort/tools/launch/job_output.h>
#include <cohort/tools/launch/line_buffer.h>

#include <functional>
#include <span>

namespace cohort {

/// Carries one output of one rank, line by line, to the output of the job.
class OutputRelay : Immovable {
 public:
  OutputRelay(PipeReader from, LineBuffer lines, JobOutput& to, OutputChannel channel)
      : from_(std::move(from)), lines_(std::move(lines)), to_(to), channel_(channel) {}

  /// What goes on in the place of whole lines that have come; called in their order.
  using Rewrite = std::function<std::string(std::string_view lines)>;
  void rewrite_by(Rewrite rewrite) { rewrite_ = std::move(rewrite); }

  /// Until every writer has closed its end, or stop(). `scratch` is used between suspensions only: all relays
  /// share it.
  Task<> run(std::span<std::byte> scratch);

  /// Takes what is in the pipe now and ends: for when somebody who left the rank's process group keeps it
  /// open.
  void stop() noexcept;

  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  /// Suspends until run() has ended, one way or another; at once if it never began.
  [[nodiscard]] Event::WaitAwaiter until_over() noexcept { return end_.wait(); }

 private:
  Task<> carry(std::span<std::byte> scratch);
  Task<> pass_on(std::string_view lines);
  Task<> until_readable();

  PipeReader from_;
  LineBuffer lines_;
  JobOutput& to_;
  const OutputChannel channel_;
  Rewrite rewrite_;

  CancelScope* reading_ = nullptr;  ///< while it waits for bytes
  bool is_stopped_ = false;
  bool is_over_ = false;
  Event end_;
};

}  // namespace cohort
