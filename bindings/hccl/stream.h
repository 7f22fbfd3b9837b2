// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/immovable.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace cohort::bindings::hccl {

/// A queue of work that a thread of its own does, in order.
///
/// The first piece of work that throws is the stream's failure; what follows is skipped until synchronize()
/// has told it. Each piece of work ends by itself, within a time limit that it has.
///
/// Threads: any; the thread starts with the first piece. Lifetime: its end waits for what it was given.
class Stream : Immovable {
 public:
  /// A piece of work: one of the two is called, once, in the stream's thread.
  struct Work {
    std::function<void()> run;  ///< may throw
    /// In its place, after a failure of the stream's. Must not throw. May be empty.
    std::function<void(const std::exception_ptr&)> skip = {};
  };

  explicit Stream(std::int32_t device) noexcept : device_(device) {}
  ~Stream();

  [[nodiscard]] std::int32_t device() const noexcept { return device_; }
  /// Throws ResourceLimit where no thread can be had.
  void add(Work work);
  /// Waits for what it was given so far; false if it is not over by then. Throws its failure, which it has no
  /// longer then.
  [[nodiscard]] bool synchronize(TimePoint until);
  [[nodiscard]] bool is_idle() const;

 private:
  void work() noexcept;
  void perform(Work& work) noexcept;

  const std::int32_t device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t added_ = 0;
  std::uint64_t done_ = 0;
  bool is_ending_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

/// In so many milliseconds; of -1 never. Throws CodedError for what is no time.
[[nodiscard]] TimePoint deadline_of(const char* function, std::int32_t timeout_ms);

}  // namespace cohort::bindings::hccl
