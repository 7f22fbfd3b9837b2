// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/system/shared_memory.h>

#include <atomic>
#include <cstdint>
#include <utility>

namespace cohort::host {

/// The two words by which a sleeping rank is woken: in its segment, written by everybody.
struct DoorbellWords {
  alignas(64) std::atomic<std::uint32_t> asleep{0};  ///< 1 while the owner sleeps, or is about to
  alignas(64) std::atomic<std::uint32_t> rings{0};   ///< counts up; the futex
};

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
    words_.asleep.store(1, std::memory_order_seq_cst);
  }
  /// Whether or not it had fallen asleep: if not, there may be no memory yet.
  void wake_up() noexcept {
    if (std::exchange(is_asleep_, false)) words_.asleep.store(0, std::memory_order_relaxed);
  }
  /// To be given to peers on this host when the kernel has no futex waits; -1 otherwise.
  [[nodiscard]] int event_descriptor() const noexcept { return event_.number(); }

 private:
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
  void ring_if_asleep() noexcept {
    if (words_->asleep.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      ring();
  }

 private:
  void ring() noexcept;

  DoorbellWords* words_ = nullptr;
  Descriptor event_;
};

}  // namespace cohort::host
