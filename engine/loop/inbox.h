// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>

#include <atomic>
#include <memory>

namespace cohort {

class Driver;

/// Something for the loop to do, handed over by another thread. Lives until deliver() has been called.
class InboxItem {
 public:
  /// Runs on the loop, once.
  virtual void deliver() noexcept = 0;
  /// Instead of deliver(), when the engine ends first.
  virtual void discard() noexcept {}

 protected:
  ~InboxItem() = default;
};

/// The one way from other threads into an engine. First in, first out per sender; no order between senders.
class Inbox : Immovable {
 public:
  explicit Inbox(Driver& driver);
  ~Inbox();

  /// From any thread. Wakes the loop only if it sleeps. Must have returned before the inbox is destroyed.
  void post(InboxItem& item);

  // For the loop:
  /// Delivers what is there now, not what that posts in turn; true if there was anything.
  bool drain() noexcept;
  [[nodiscard]] bool empty() const noexcept { return waiting_.load(std::memory_order_relaxed) == 0; }
  /// Announces that the loop is about to sleep. False: something came in meanwhile, do not sleep.
  [[nodiscard]] bool arm() noexcept;
  void disarm() noexcept { asleep_.store(false, std::memory_order_relaxed); }

 private:
  struct Queue;

  Driver& driver_;
  std::unique_ptr<Queue> queue_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<bool> asleep_{false};
};

}  // namespace cohort
