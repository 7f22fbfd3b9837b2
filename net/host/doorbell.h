// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/system/shared_memory.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace cohort::host {

/// The words by which a sleeping rank is woken, and where it runs: in its segment; those of the second line
/// are written by everybody.
struct DoorbellWords {
  alignas(64) std::atomic<std::uint32_t> asleep{0};  ///< 1 while the owner sleeps, or is about to
  CoreWord core{0};
  alignas(64) std::atomic<std::uint32_t> rings{0};  ///< counts up; the futex
  /// By the clock of this host, in ns, when the owner was rung first since it fell asleep; 0: it was not.
  std::atomic<std::int64_t> rung_at{0};
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

/// The owner's end: listens while its engine sleeps.
///
/// By an io_uring futex wait where the kernel has it (Linux 6.7), else by an eventfd that peers were given.
class DoorbellListener : Immovable {
 public:
  DoorbellListener(Engine& engine, DoorbellWords& words);

  /// Runs until cancelled: keeps a wait in the kernel, so that a ring ends the engine's sleep.
  Task<> listen();
  /// From here on peers ring. Whoever calls it looks once more for what it waits for before it sleeps.
  void fall_asleep() noexcept {
    is_asleep_ = true;
    words_.rung_at.store(0, std::memory_order_relaxed);
    words_.asleep.store(1, std::memory_order_seq_cst);
  }
  /// Whether or not it had fallen asleep: if not, there may be no memory yet.
  void wake_up() noexcept {
    if (std::exchange(is_asleep_, false)) be_awake();
  }
  /// To be given to peers on this host when the kernel has no futex waits; -1 otherwise.
  [[nodiscard]] int event_descriptor() const noexcept { return event_.number(); }

 private:
  void be_awake() noexcept;
  Task<> listen_by_futex();
  Task<> listen_by_event();

  Engine& engine_;
  DoorbellWords& words_;
  bool is_asleep_ = false;
  Descriptor event_;
};

/// A peer's end: rings if the owner sleeps.
class Doorbell {
 public:
  Doorbell() = default;
  /// `event` is the owner's eventfd, if it listens to one.
  Doorbell(DoorbellWords& words, Descriptor event) noexcept : words_(&words), event_(std::move(event)) {}

  /// After the store that the owner waits for, which must be seq_cst. A load when the owner is awake.
  void ring_if_asleep(Clock& clock) noexcept {
    if (words_->asleep.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      ring(clock.now());
  }

 private:
  void ring(TimePoint now) noexcept;

  DoorbellWords* words_ = nullptr;
  Descriptor event_;
};

}  // namespace cohort::host
