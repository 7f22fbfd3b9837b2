// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/stepped_run.h>

#include <cohort/engine/assert.h>

#include <algorithm>
#include <limits>

namespace cohort {
namespace {

/// As many as do not keep the foreign loop waiting for long, if the engine always finds something.
constexpr int kMostTurns = 64;

}  // namespace

SteppedRun::SteppedRun(Engine& engine, Task<> task)
    : engine_(engine),
      descriptor_(engine.driver().descriptor()),
      task_(run_with_background(engine, std::move(task))) {
  COHORT_ASSERT(descriptor_ >= 0, "{} has no descriptor that a foreign loop could wait for",
                engine.driver().description());
  const Engine::Activation active(engine_);
  task_.handle().promise().set_owner(&root_);
  task_.handle().resume();
  prepare_to_wait();
}

SteppedRun::~SteppedRun() {
  COHORT_ASSERT(is_over_, "a foreign loop left an engine before its task was over; step() until is_over()");
}

Task<> SteppedRun::run_with_background(Engine& engine, Task<> task) {
  std::exception_ptr failure;
  try {
    co_await task;
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    co_await engine.background().join();
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
}

void SteppedRun::step() {
  if (is_over_) return;
  const Engine::Activation active(engine_);
  if (std::exchange(is_armed_, false)) engine_.disarm();
  engine_.driver().reset_descriptor();
  for (int turns = 0; turns < kMostTurns && !is_over_; ++turns)
    if (!engine_.turn()) break;
  prepare_to_wait();
}

void SteppedRun::run_until(const bool& done) {
  const Engine::Activation active(engine_);
  if (std::exchange(is_armed_, false)) engine_.disarm();
  engine_.drive_until(done);
  prepare_to_wait();
}

/// What arming submits has to reach the kernel before the loop waits.
void SteppedRun::prepare_to_wait() noexcept {
  if (is_over_) return;
  is_armed_ = engine_.arm() && !engine_.driver().poll();
  if (!is_armed_) engine_.disarm();
}

void SteppedRun::take() const {
  COHORT_ASSERT(is_over_, "the result was asked for before the task was over");
  task_.handle().promise().take();
}

/// What became ready or was begun since step() is armed now.
TimePoint SteppedRun::next_deadline() noexcept {
  if (is_armed_) {
    const Engine::Activation active(engine_);
    engine_.disarm();
    prepare_to_wait();
  }
  return is_armed_ ? engine_.timers().earliest() : TimePoint{};
}

int SteppedRun::timeout_ms() noexcept {
  const TimePoint deadline = next_deadline();
  if (deadline == kNever) return -1;
  if (!is_armed_) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - engine_.now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace cohort
