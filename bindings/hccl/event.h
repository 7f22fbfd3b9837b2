// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/hccl/stream.h>
#include <cohort/engine/clock.h>

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

namespace cohort::bindings::hccl {

/// A moment at which a stream is somewhere: reached, or not yet. Threads: any.
class Recording {
 public:
  explicit Recording(const Stream& stream) noexcept : stream_(&stream) {}
  /// `failure`: of the stream that came there; null: none.
  void reach(std::exception_ptr failure) noexcept;
  /// Waits; false if it is not reached by then. Throws the failure; CodedError where the stream waits for
  /// itself.
  [[nodiscard]] bool wait(TimePoint until) const;
  /// When it was; nothing: not yet.
  [[nodiscard]] std::optional<TimePoint> reached_at() const;

 private:
  const Stream* const stream_;  ///< may be over
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<TimePoint> reached_at_;
  std::exception_ptr failure_;
};

/// What is recorded in streams, again and again: whoever waits, waits for the last recording by then.
/// Threads: any. In a child of fork() it throws CodedError.
class Event : public std::enable_shared_from_this<Event> {
 public:
  void record(Stream& stream);
  /// Recorded nowhere, once the stream comes there, unless it is recorded anew until then.
  void reset(Stream& stream);
  /// The stream goes on when it is reached, or fails, at the latest after so long; zero: as long as it takes.
  void make_wait(Stream& stream, Duration limit) const;
  /// Null: recorded nowhere.
  [[nodiscard]] std::shared_ptr<const Recording> recording() const;

 private:
  void refuse_child() const;

  const ForkDetector fork_;
  mutable std::mutex mutex_;
  std::shared_ptr<Recording> recording_;
};

}  // namespace cohort::bindings::hccl
