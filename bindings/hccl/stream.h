// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/fork_detector.h>
#include <cohort/engine/clock.h>
#include <cohort/engine/immovable.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace cohort::bindings::hccl {

/// A queue of work that a thread of its own does, in order; each piece ends within its own time limit.
///
/// What follows a piece that throws is skipped until synchronize() has told of it. Threads: any; its own
/// starts with the first piece. Lifetime: its end waits for what it was given. In a child of fork() it
/// refuses everything.
class Stream : Immovable {
 public:
  /// A piece of work: one of the two is called, once, in the stream's thread.
  struct Work {
    std::function<void()> run;  ///< may throw
    /// In its place, after a failure of the stream's. Must not throw. May be empty.
    std::function<void(const std::exception_ptr&)> skip = {};
  };

  /// Left where it lies when its last owner is a child of fork().
  [[nodiscard]] static std::shared_ptr<Stream> make(std::int32_t device);
  /// The one whose thread this is; null: none.
  [[nodiscard]] static const Stream* of_this_thread() noexcept;
  /// Throws CodedError in the thread of a stream, any.
  static void refuse_own_threads(const char* function);

  [[nodiscard]] std::int32_t device() const noexcept { return device_; }
  /// Whether this is a child of the process that made it.
  [[nodiscard]] bool is_forked() const noexcept { return fork_.is_child(); }
  /// Whether this thread is the stream's own, which would wait for itself.
  [[nodiscard]] bool is_own_thread() const noexcept { return of_this_thread() == this; }

  // They throw CodedError in a child of fork().

  /// Throws ResourceLimit where no thread can be had.
  void add(Work work);
  /// Waits for what it was given so far; false if it is not over by then. Throws the failure that the stream
  /// had when that was over, to all who wait for it; work goes on again once somebody is told who
  /// waits for all that was added. CodedError in the stream's own thread.
  [[nodiscard]] bool synchronize(TimePoint until);
  [[nodiscard]] bool is_idle() const;

 private:
  /// Somebody in synchronize(), of whose stack it is.
  struct Waiter {
    std::uint64_t target;  ///< a number of work
    bool is_over = false;
    std::exception_ptr failure = {};
  };

  explicit Stream(std::int32_t device) noexcept : device_(device) {}
  ~Stream();
  void refuse_child() const;
  void work() noexcept;
  void perform(Work& work) noexcept;

  const std::int32_t device_;
  const ForkDetector fork_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t added_ = 0;
  std::uint64_t done_ = 0;
  std::list<Waiter> waiters_;
  bool is_ending_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

/// In so many milliseconds; of -1 never. Throws CodedError for what is no time.
[[nodiscard]] TimePoint deadline_of(const char* function, std::int32_t timeout_ms);

}  // namespace cohort::bindings::hccl
