// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/doorbell.h>

#include <cohort/engine/io/wakeup.h>

namespace cohort::host {

DoorbellListener::DoorbellListener(Engine& engine, DoorbellWords& words)
    : engine_(engine),
      words_(words),
      event_(engine.driver().has_futex() ? Descriptor() : wakeup::make_event()) {}

Task<> DoorbellListener::listen() {
  if (engine_.driver().has_futex()) return listen_by_futex();
  return listen_by_event();
}

/// A ring between reading the count and the kernel's look at it completes the wait at once: none is lost.
Task<> DoorbellListener::listen_by_futex() {
  for (;;) {
    const std::uint32_t seen = words_.rings.load(std::memory_order_seq_cst);
    IoOperation wait(engine_.driver(),
                     {.kind = IoKind::futex_wait, .address = &words_.rings, .expected = seen});
    co_await wait;
  }
}

Task<> DoorbellListener::listen_by_event() {
  for (;;) {
    std::uint64_t count = 0;
    IoOperation read(
        engine_.driver(),
        {.kind = IoKind::read, .descriptor = event_.number(), .address = &count, .bytes = sizeof count});
    co_await read;
  }
}

/// What a peer wrote there may be no time of this clock.
void DoorbellListener::be_awake() noexcept {
  words_.asleep.store(0, std::memory_order_relaxed);
  const std::int64_t rung = words_.rung_at.load(std::memory_order_relaxed);
  const bool is_time = rung > 0 && rung <= engine_.now().time_since_epoch().count();
  if (is_time) engine_.note_wake(TimePoint(Duration(rung)));
}

void Doorbell::ring(TimePoint now) noexcept {
  std::int64_t never = 0;
  words_->rung_at.compare_exchange_strong(never, now.time_since_epoch().count(), std::memory_order_relaxed);
  words_->rings.fetch_add(1, std::memory_order_seq_cst);
  wakeup::wake_futex(words_->rings);
  if (event_.is_open()) wakeup::signal_event(event_.number());
}

}  // namespace cohort::host
