// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/engine/operation.h>

#include <atomic>
#include <cstdint>

namespace cohort::detail {

/// Is told how the coroutines of one thread fork, join and notify each other: what a machine without real
/// memory has to know besides the links, which are its own.
///
/// Of all that runs on the thread, one stream runs at a time. A stream forks by when_all, one new stream per
/// task, and goes on when all have ended. Without an observer anywhere in the process each call site costs
/// one relaxed load.
class StreamObserver : Immovable {
 public:
  /// The running stream starts another, which runs at once.
  virtual void task_starts() noexcept = 0;
  /// Back in the stream that started it: the task has suspended, or it is over.
  virtual void task_started() noexcept = 0;
  /// The running stream is over.
  virtual void task_ends(bool has_failed) noexcept = 0;
  /// All tasks of a stream's when_all are over and it goes on.
  virtual void tasks_joined() noexcept = 0;

  /// The running stream posts a notify, which then holds `untaken` posts. The observer wakes the waiter.
  virtual void notify_posted(Operation& notify, std::uint32_t untaken, std::uint32_t limit) noexcept = 0;
  /// The running stream is about to suspend on the notify. May throw instead.
  virtual void notify_awaited(Operation& notify) = 0;
  /// The running stream takes one post.
  virtual void notify_taken(Operation& notify) noexcept = 0;

  /// Makes an observer that of this thread while it lives.
  class Watch : Immovable {
   public:
    explicit Watch(StreamObserver& observer) noexcept;
    ~Watch();

   private:
    StreamObserver* const previous_;
  };

 protected:
  ~StreamObserver() = default;
  static void complete(Operation& operation) noexcept { operation.complete(); }
};

/// How many Watches there are in this process.
inline constinit std::atomic<std::uint32_t> watches{0};
[[nodiscard]] StreamObserver* stream_observer_of_this_thread() noexcept;

/// The observer of this thread, or null.
[[nodiscard]] inline StreamObserver* stream_observer() noexcept {
  if (watches.load(std::memory_order_relaxed) == 0) [[likely]]
    return nullptr;
  return stream_observer_of_this_thread();
}

}  // namespace cohort::detail
