// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/inbox.h>

#include <cohort/engine/io/driver.h>

#include <concurrentqueue/concurrentqueue.h>

namespace cohort {

struct Inbox::Queue {
  moodycamel::ConcurrentQueue<InboxItem*> items;
};

Inbox::Inbox(Driver& driver) : driver_(driver), queue_(std::make_unique<Queue>()) {}

Inbox::~Inbox() {
  InboxItem* item = nullptr;
  while (queue_->items.try_dequeue(item)) item->discard();
}

void Inbox::post(InboxItem& item) {
  queue_->items.enqueue(&item);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  if (asleep_.exchange(false, std::memory_order_seq_cst)) driver_.wake();
}

bool Inbox::drain() noexcept {
  const std::size_t budget = waiting_.load(std::memory_order_acquire);
  if (budget == 0) return false;
  InboxItem* item = nullptr;
  std::size_t taken = 0;
  while (taken != budget && queue_->items.try_dequeue(item)) {
    ++taken;
    item->deliver();
  }
  waiting_.fetch_sub(taken, std::memory_order_relaxed);
  return taken != 0;
}

bool Inbox::arm() noexcept {
  asleep_.store(true, std::memory_order_seq_cst);
  if (waiting_.load(std::memory_order_seq_cst) == 0) return true;
  disarm();
  return false;
}

}  // namespace cohort
