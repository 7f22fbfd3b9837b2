// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace cohort::test {

/// The time of a VirtualEngine: stands still while anything runs, jumps when the loop would sleep.
struct VirtualTime {
  static constexpr TimePoint kStart{std::chrono::hours(1)};
  TimePoint now = kStart;
};

class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(std::shared_ptr<const VirtualTime> time) : time_(std::move(time)) {}
  [[nodiscard]] TimePoint now() noexcept override { return time_->now; }

 private:
  std::shared_ptr<const VirtualTime> time_;
};

/// A driver without a kernel: sleeping advances the clock to the next timer, so an hour passes at once.
///
/// A loop that would sleep for ever, with no timer and nothing about to complete, aborts with what is stuck.
/// Requests stay in flight until the test answers them with finish_next(), or they are cancelled. No other
/// thread may be involved: nothing would wake this loop.
class VirtualDriver final : public Driver {
 public:
  explicit VirtualDriver(std::shared_ptr<VirtualTime> time) : time_(std::move(time)) {}

  void submit(IoOperation& operation) noexcept override { in_flight_.push_back(&operation); }
  void cancel(IoOperation& operation) noexcept override { answer(operation, cancel_answer_); }
  bool poll() noexcept override {
    if (answers_.empty()) return false;
    for (const auto& [operation, result] : std::exchange(answers_, {})) operation->finish(result);
    return true;
  }
  [[nodiscard]] bool has_news() const noexcept override { return !answers_.empty(); }
  void sleep(TimePoint now, TimePoint until) noexcept override {
    ++sleeps_;
    if (poll()) return;
    if (until == kNever) die_of_boredom();
    if (until > now) time_->now = until;
  }
  void wake() noexcept override {}
  [[nodiscard]] bool has_futex() const noexcept override { return false; }
  [[nodiscard]] std::string description() const override { return "virtual"; }

  [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_.size(); }
  [[nodiscard]] std::size_t sleeps() const noexcept { return sleeps_; }
  /// The oldest request that was not answered yet.
  [[nodiscard]] IoOperation& next() const noexcept { return *in_flight_.front(); }
  /// Answers it: its waiter sees the result in a later turn.
  void finish_next(int result) { answer(next(), result); }
  /// What cancelled requests answer from now on, as when the kernel was faster than the cancellation.
  void set_cancel_answer(int result) noexcept { cancel_answer_ = result; }

 private:
  void answer(IoOperation& operation, int result) {
    if (std::erase(in_flight_, &operation) != 0) answers_.emplace_back(&operation, result);
  }
  [[noreturn]] void die_of_boredom() const noexcept {
    std::fprintf(stderr, "a hang: the loop sleeps for ever; no timer is armed, %zu requests are in flight\n",
                 in_flight_.size());
    std::abort();
  }

  std::shared_ptr<VirtualTime> time_;
  std::deque<IoOperation*> in_flight_;
  std::deque<std::pair<IoOperation*, int>> answers_;
  std::size_t sleeps_ = 0;
  int cancel_answer_ = -ECANCELED;
};

/// An engine in virtual time: deterministic, and a hang is a failure at once.
class VirtualEngine final : public Engine {
 public:
  VirtualEngine() : VirtualEngine(std::make_shared<VirtualTime>()) {}

  [[nodiscard]] VirtualDriver& virtual_driver() noexcept { return static_cast<VirtualDriver&>(driver()); }
  /// Since the engine was made.
  [[nodiscard]] Duration elapsed() noexcept { return now() - VirtualTime::kStart; }

 private:
  explicit VirtualEngine(const std::shared_ptr<VirtualTime>& time) : Engine(options(time)) {}

  static EngineOptions options(const std::shared_ptr<VirtualTime>& time) {
    return {.driver = std::make_unique<VirtualDriver>(time),
            .clock = std::make_unique<VirtualClock>(time),
            .compute_threads = 1,
            .spin = Duration::zero()};
  }
};

}  // namespace cohort::test
