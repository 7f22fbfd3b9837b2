// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/immovable.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort {

class TimerQueue;

/// Something that happens at a moment, once, on the loop. Derive and implement expire(). Disarmed by its
/// destructor.
class Timer : Immovable {
 public:
  [[nodiscard]] bool is_armed() const noexcept { return index_ != kIdle; }
  [[nodiscard]] TimePoint when() const noexcept { return when_; }

 protected:
  Timer() = default;
  virtual ~Timer();
  /// Runs on the loop, disarmed. May arm again.
  virtual void expire() noexcept = 0;

 private:
  friend class TimerQueue;
  static constexpr std::size_t kIdle = ~std::size_t{0};

  TimerQueue* queue_ = nullptr;
  TimePoint when_ = kNever;
  std::uint64_t order_ = 0;
  std::size_t index_ = kIdle;
};

/// Armed timers of one engine: a binary heap of pointers. Arming and disarming are O(log n) and allocate only
/// to grow. Of timers for one moment, the one armed first expires first.
class TimerQueue : Immovable {
 public:
  TimerQueue() = default;
  /// What is still armed will never expire, and may outlive the queue.
  ~TimerQueue();

  /// Arms, or moves an armed timer. kNever disarms.
  void arm(Timer& timer, TimePoint when);
  void disarm(Timer& timer) noexcept;
  /// Expires everything due at `now`; returns whether there was anything.
  bool expire_due(TimePoint now) noexcept;
  /// The earliest moment, or kNever.
  [[nodiscard]] TimePoint earliest() const noexcept { return heap_.empty() ? kNever : heap_.front()->when_; }

 private:
  static bool is_before(const Timer& a, const Timer& b) noexcept {
    return a.when_ != b.when_ ? a.when_ < b.when_ : a.order_ < b.order_;
  }
  void place(std::size_t index, Timer* timer) noexcept;
  void sift_up(std::size_t index) noexcept;
  void sift_down(std::size_t index) noexcept;

  std::vector<Timer*> heap_;
  std::uint64_t armed_ = 0;
};

}  // namespace cohort
