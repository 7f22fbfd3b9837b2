// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/engine.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/io/choose_driver.h>
#include <cohort/engine/loop/yield_budget.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/processor.h>
#include <cohort/engine/tuning.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cohort {
namespace {

thread_local constinit Engine* current_engine = nullptr;

std::optional<Duration> spin_from_environment(Duration asked) {
  if (asked >= Duration::zero()) return asked;
  return environment::microseconds("COHORT_SPIN_US");
}

unsigned compute_threads_from_environment(unsigned asked, Platform& platform) {
  if (asked != 0) return asked;
  const auto configured = environment::number("COHORT_COMPUTE_THREADS", 1, 1024);
  return configured ? static_cast<unsigned>(*configured) : platform.available_cores();
}

std::uint64_t draw_number() {
  std::uint64_t number = 0;
  if (::getentropy(&number, sizeof number) != 0) throw system_error(errno, "drawing the number of an engine");
  return number;
}

}  // namespace

void detail::schedule_on_current_engine(std::coroutine_handle<> handle) noexcept {
  Engine::current().schedule(handle);
}

Engine& Engine::current() noexcept {
  COHORT_ASSERT(current_engine != nullptr,
                "no engine lives on this thread; what another one has to tell an engine's tasks goes through "
                "engine.post([&] {{ ... }}), which runs it on theirs");
  return *current_engine;
}

bool Engine::is_current() const noexcept { return current_engine == this; }

Engine::Engine(EngineOptions options)
    : driver_(options.driver ? std::move(options.driver) : make_driver()),
      clock_(options.clock ? std::move(options.clock) : std::make_unique<MonotonicClock>()),
      network_(options.network ? std::move(options.network) : make_kernel_network()),
      platform_(options.platform ? std::move(options.platform) : make_real_platform()),
      spin_budget_(spin_from_environment(options.spin)),
      previous_(current_engine),
      number_(draw_number()),
      engines_per_core_(1.0 / platform_->available_cores()),
      inbox_(*driver_),
      pool_(inbox_, compute_threads_from_environment(options.compute_threads, *platform_)) {
  current_engine = this;
}

Engine::~Engine() {
  COHORT_ASSERT(current_engine == this, "an engine must be destroyed on its own thread, innermost first");
  COHORT_ASSERT(!is_running_, "an engine was destroyed by a task that it runs");
  current_engine = previous_;
}

Engine::Activation::Activation(Engine& engine) noexcept
    : engine_(engine), previous_(std::exchange(current_engine, &engine)) {
  COHORT_ASSERT(!engine.is_running_, "run() was called {}",
                previous_ == &engine
                    ? "from a task of the same engine; co_await the task instead"
                    : "of an engine that runs already, on another thread or around this one; leave it to the "
                      "thread that runs it, and hand it work by engine.post([&] { ... })");
  engine.is_running_ = true;
  ++engine.turns_;  // what is begun before the first turn has time of its own
}

Engine::Activation::~Activation() {
  engine_.is_running_ = false;
  current_engine = previous_;
}

void Engine::post(std::function<void()> fn) {
  struct Call final : InboxItem {
    explicit Call(std::function<void()> function) : body(std::move(function)) {}
    void deliver() noexcept override {
      const std::unique_ptr<Call> self(this);
      body();
    }
    void discard() noexcept override { delete this; }
    std::function<void()> body;
  };
  inbox_.post(*new Call(std::move(fn)));
}

std::exception_ptr Engine::settle_background() {
  if (background_.empty() && !background_.failure()) return nullptr;
  auto join = [this]() -> Task<> { co_await background_.join(); };
  Task<> settling = join();
  drive(settling);
  return settling.handle().promise().exception();
}

void Engine::drive_until(const bool& done) {
  while (!done) {
    if (turn())
      idle_turns_ = 0;
    else
      idle();
  }
}

bool Engine::turn() noexcept {
  ++turns_;
  const std::size_t ready = ready_.size();
  for (std::size_t i = 0; i < ready; ++i) ready_.pop().resume();

  bool progress = ready != 0;
  if (timers_.earliest() != kNever) progress |= timers_.expire_due(now());
  progress |= inbox_.drain();
  progress |= sources_.poll([this] { return is_turn_over(); });
  progress |= driver_->poll();
  if (!patient_.empty()) admit_patient();
  return progress || !ready_.empty();
}

/// One of them: each may take a long turn.
void Engine::admit_patient() noexcept {
  if (!ready_.empty() && ++turns_for_others_ < tuning::waiting::kTurnsForOthers) return;
  turns_for_others_ = 0;
  ready_.push(patient_.pop());
}

bool Engine::is_turn_over(TimePoint now) noexcept {
  if (std::exchange(timed_turn_, turns_) != turns_) turn_began_ = now;
  return now - turn_began_ >= tuning::waiting::kLongTurn && has_waiting(now);
}

bool Engine::has_waiting(TimePoint now) noexcept {
  if (!ready_.empty() || !inbox_.empty() || driver_->has_news() || timers_.earliest() <= now) return true;
  bool is_waited_for = false;
  sources_.for_each([&](Source& source) { is_waited_for |= source.is_waited_for(); });
  return is_waited_for;
}

void Engine::idle() noexcept {
  if (idle_turns_++ == 0) {
    idle_since_ = now();
    last_wait_ = Duration::zero();
  }
  // With more ranks than cores, the rank that would answer may be waiting for this very core.
  if (is_oversubscribed()) {
    if (calls_ != 0 && !spin_budget_.is_fixed() && !YieldBudget::of_this_thread().pays()) return sleep();
    platform_->yield_core();
  } else if (calls_ == 0)  // a peer is not what is waited for
    processor::relax();
  else if (!may_spin_on())
    return sleep();
  else
    processor::relax();
  const Duration most = spin_time();
  const bool check = most == Duration::zero() || idle_turns_ % tuning::waiting::kTurnsBetweenClockReads == 0;
  if (check && now() - idle_since_ >= most) sleep();
}

/// Who has set how long to spin is obeyed: the core may not come back before that is over.
bool Engine::hand_core_over() noexcept {
  if (spin_budget_.is_fixed()) return true;
  const TimePoint began = now();
  if (core_peers_.is_core_taken(began)) return false;
  platform_->hand_core_over();
  core_peers_.note_hand_over(began, now());
  return true;
}

bool Engine::may_spin_for_other_hosts() noexcept {
  if (spin_budget_.is_fixed()) return true;
  const TimePoint began = now();
  if (core_offers_.is_core_taken(began)) return false;
  if (core_offers_.is_due()) {
    platform_->hand_core_over();
    core_offers_.note(began, now());
  }
  return true;
}

void Engine::sleep() noexcept {
  if (arm()) {
    if (calls_ != 0 && is_oversubscribed()) YieldBudget::of_this_thread().note_sleep();
    driver_->sleep(now(), timers_.earliest());
    idle_turns_ = 0;
    if (!core_peers_.empty()) static_cast<void>(core_peers_.meet_on(platform_->core()));
    if (may_learn()) last_wait_ = now() - idle_since_;
  }
  disarm();
}

/// Where engines take turns on cores, a wake takes as long as the turns of others.
bool Engine::may_learn() const noexcept {
  return calls_ != 0 && !spin_budget_.is_fixed() && !is_oversubscribed();
}

void Engine::note_wake(TimePoint posted) noexcept {
  if (may_learn()) spin_budget_.note_wake(now() - posted);
  last_wait_ = Duration::zero();
}

void Engine::note_answer() noexcept {
  const Duration wait = std::exchange(last_wait_, Duration::zero());
  if (wait != Duration::zero() && may_learn()) spin_budget_.note_wait(wait);
}

bool Engine::arm() noexcept {
  bool may_sleep = inbox_.arm();
  sources_.for_each([&](Source& source) { may_sleep = source.arm() && may_sleep; });
  return may_sleep && ready_.empty() && patient_.empty();
}

void Engine::disarm() noexcept {
  inbox_.disarm();
  sources_.for_each([](Source& source) { source.disarm(); });
}

}  // namespace cohort
