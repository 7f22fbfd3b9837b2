// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/world/scheduler.h>

#include <cohort/engine/system/processor.h>

#include <algorithm>
#include <cstdio>

namespace cohort::world {
namespace {

/// Nothing here takes so long for real: a process that keeps its turn that long loops without a driver.
constexpr std::chrono::seconds kLongestRealTurn{60};

double seconds_of(TimePoint moment) {
  return std::chrono::duration<double>(moment.time_since_epoch()).count() - 3600;
}

}  // namespace

Scheduler::Scheduler(const Settings& settings)
    : settings_(settings),
      random_(settings.seed ^ 0x7363686564756c65),
      end_(after(now_, settings.longest)),
      slots_(settings.host_of.size()) {
  for (const SlowProcess& slow : settings.slow) slots_[slow.process].slowness = slow.factor;
}

bool Scheduler::run(std::vector<std::function<void()>> bodies) {
  const int core = processor::current_core();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.thread = std::thread([this, &slot, core, body = std::move(bodies[i])] {
      processor::stay_on(core);
      slot.turn.take();
      body();
      slot.state = State::finished;
      give_turn(choose());
    });
  }
  give_turn(choose());
  std::uint64_t turns_seen = 0;
  while (!done_.take_within(kLongestRealTurn)) {
    if (turns_ == turns_seen) {
      report("a process goes on without ever waiting");
      is_abandoned_ = true;
      break;
    }
    turns_seen = turns_;
  }
  for (Slot& slot : slots_) is_abandoned_ ? slot.thread.detach() : slot.thread.join();
  return !is_abandoned_;
}

TimePoint Scheduler::ready_at(const Slot& slot) const {
  if (slot.state == State::ready) return slot.not_before;
  if (slot.state != State::asleep) return kNever;
  if (slot.is_woken.load(std::memory_order_acquire)) return slot.not_before;
  const TimePoint event = slot.host != nullptr ? slot.host->ready_at() : kNever;
  return std::max(slot.not_before, std::min(event, slot.wake_at));
}

bool Scheduler::is_left(State state) const noexcept {
  return std::ranges::any_of(slots_, [&](const Slot& slot) { return slot.state == state; });
}

Scheduler::Slot* Scheduler::choose() {
  for (;;) {
    TimePoint earliest = kNever;
    std::vector<Slot*> chosen;
    for (Slot& slot : slots_) {
      const TimePoint at = std::max(ready_at(slot), now_);
      if (at < earliest) chosen.clear();
      earliest = std::min(earliest, at);
      if (at == earliest && at != kNever) chosen.push_back(&slot);
    }
    const bool is_stuck = earliest == kNever && is_left(State::asleep);
    if (is_stuck) report(fmt::format("a hang: nobody can ever go on;{}", who_waits()));
    const bool is_endless =
        !is_over_ && (earliest > end_ || ++turns_ > settings_.most_turns) && !chosen.empty();
    if (is_endless)
      report(fmt::format("no end after {} turns, {:.3f} s;{}", turns_.load(), seconds_of(now_), who_waits()));
    if (!chosen.empty() && !is_endless) {
      now_ = earliest;
      return chosen[random_.below(chosen.size())];
    }
    if (is_over_) {  // what was left of it has been asked to end already
      is_abandoned_ = is_stuck;
      return nullptr;
    }
    is_over_ = true;
    for (Slot& slot : slots_) {
      if (slot.state == State::dead) slot.state = State::ready;
      slot.is_woken = true;
    }
    on_end_();
  }
}

std::string Scheduler::who_waits() const {
  std::string text;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.state == State::finished) continue;
    const bool is_asleep = slot.state == State::asleep;
    std::string timer;
    if (is_asleep && slot.wake_at != kNever) timer = fmt::format(", or {:.6f} s", seconds_of(slot.wake_at));
    text += fmt::format(" rank {} {}{};", i,
                        slot.state == State::dead ? "is dead"
                        : is_asleep               ? "waits for " + slot.host->waits_for()
                                                  : "runs",
                        timer);
  }
  return text;
}

void Scheduler::report(const std::string& what) {
  if (finding_.empty()) finding_ = what;
}

void Scheduler::give_turn(Slot* to) { (to != nullptr ? to->turn : done_).give(); }

/// A turn takes next to nothing, now and then longer, always more on a slow process.
void Scheduler::end_turn(Slot& slot) {
  const bool is_long = random_.chance(3);
  const auto most = is_long ? settings_.longest_pause.count() : 2000;
  const auto took = static_cast<double>(
      random_.between(100, static_cast<std::uint64_t>(std::max<Duration::rep>(most, 101))));
  slot.not_before = now_ + Duration(static_cast<Duration::rep>(took * slot.slowness));
}

void Scheduler::hand_over(Slot& from) {
  end_turn(from);
  pass_turn(from);
}

void Scheduler::pass_turn(Slot& from) {
  Slot* next = choose();
  if (next != &from) {
    give_turn(next);
    from.turn.take();
  }
  from.state = State::ready;
}

void Scheduler::pause(Process process) {
  slots_[process].state = State::ready;
  hand_over(slots_[process]);
}

void Scheduler::compute(Process process, Duration takes) {
  Slot& slot = slots_[process];
  slot.state = State::ready;
  slot.not_before = now_ + takes;
  pass_turn(slot);
}

void Scheduler::sleep(Process process, TimePoint until) {
  Slot& slot = slots_[process];
  slot.wake_at = until;
  slot.state = State::asleep;
  hand_over(slot);
  slot.is_woken.store(false, std::memory_order_relaxed);
}

void Scheduler::die(Process process) {
  note(process, "dies");
  slots_[process].state = State::dead;
  hand_over(slots_[process]);
}

void Scheduler::note(Process process, const char* what, std::uint64_t one, std::uint64_t other) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  const auto mix = [&](std::uint64_t value) { hash_ = (hash_ ^ value) * kPrime; };
  mix(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
  mix(process);
  for (const char* letter = what; *letter != '\0'; ++letter) mix(static_cast<unsigned char>(*letter));
  mix(one);
  mix(other);
  if (settings_.prints_trace)
    fmt::print(stderr, "{:12.9f} rank {}: {} {} {}\n", seconds_of(now_), process, what, one, other);
}

}  // namespace cohort::world
