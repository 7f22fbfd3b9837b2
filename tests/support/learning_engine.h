// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/system/platform.h>
#include <cohort/tests/support/virtual_engine.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::test {

/// A microsecond goes by with each look at it, so that who spins until a moment comes to that moment.
class TickingClock final : public Clock {
 public:
  TickingClock(std::shared_ptr<VirtualTime> time, std::shared_ptr<Duration> looked)
      : time_(std::move(time)), looked_(std::move(looked)) {}
  [[nodiscard]] TimePoint now() noexcept override {
    *looked_ += kLook;
    return time_->now += kLook;
  }

 private:
  static constexpr Duration kLook = std::chrono::microseconds(1);

  const std::shared_ptr<VirtualTime> time_;
  const std::shared_ptr<Duration> looked_;
};

/// A host whose cores the test decides on.
class TestPlatform final : public Platform {
 public:
  struct State {
    int core = 0;  ///< on which the engine runs
    std::size_t asked = 0;
    std::size_t handed_over = 0;
    std::size_t yielded = 0;
    Duration away{0};  ///< for so long others have the core when it is handed over
  };
  TestPlatform(std::shared_ptr<VirtualTime> time, std::shared_ptr<State> state)
      : time_(std::move(time)), state_(std::move(state)) {}

  std::string host_name() override { return "host"; }
  std::string host_fingerprint() override { return "host"; }
  std::string kernel_id() override { return "host"; }
  unsigned available_cores() override { return 4; }
  CoreSet usable_cores() override { return CoreSet(0xf); }
  std::vector<unsigned> one_of_each_core_first(const CoreSet&) override { return {0, 1, 2, 3}; }
  bool stay_on_core(std::size_t) noexcept override { return false; }
  void keep_core() noexcept override {}
  void leave_core() noexcept override {}
  std::size_t core_cache_bytes() override { return std::size_t{1} << 20; }
  std::size_t last_level_cache_bytes() override { return std::size_t{32} << 20; }
  std::size_t make_room_for_descriptors(std::size_t, std::size_t wanted, std::string_view) override {
    return wanted;
  }
  void yield_core() noexcept override { ++state_->yielded; }
  void hand_core_over() noexcept override {
    ++state_->handed_over;
    time_->now += state_->away;
  }
  int core() noexcept override {
    ++state_->asked;
    return state_->core;
  }

 private:
  const std::shared_ptr<VirtualTime> time_;
  const std::shared_ptr<State> state_;
};

/// An engine that learns how long to spin, in time that goes by while it spins.
class LearningEngine final : public Engine {
 public:
  /// Negative: learnt, unless the environment says how long.
  explicit LearningEngine(Duration spin = Duration(-1))
      : LearningEngine(std::make_shared<VirtualTime>(), std::make_shared<Duration>(0),
                       std::make_shared<TestPlatform::State>(), spin) {}

  [[nodiscard]] VirtualDriver& virtual_driver() noexcept { return static_cast<VirtualDriver&>(driver()); }
  [[nodiscard]] TestPlatform::State& host() noexcept { return *host_; }
  /// Time goes by without the engine.
  void pass(Duration duration) noexcept { time_->now += duration; }
  /// How much went by while the engine was awake.
  [[nodiscard]] Duration awake() const noexcept { return *looked_; }

 private:
  LearningEngine(std::shared_ptr<VirtualTime> time, std::shared_ptr<Duration> looked,
                 std::shared_ptr<TestPlatform::State> host, Duration spin)
      : Engine({.driver = std::make_unique<VirtualDriver>(time),
                .clock = std::make_unique<TickingClock>(time, looked),
                .platform = std::make_unique<TestPlatform>(time, host),
                .compute_threads = 1,
                .spin = spin}),
        time_(std::move(time)),
        looked_(std::move(looked)),
        host_(std::move(host)) {}

  const std::shared_ptr<VirtualTime> time_;
  const std::shared_ptr<Duration> looked_;
  const std::shared_ptr<TestPlatform::State> host_;
};

}  // namespace cohort::test
