// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/timer.h>

namespace cohort {

Timer::~Timer() {
  if (is_armed()) queue_->disarm(*this);
}

TimerQueue::~TimerQueue() {
  for (Timer* timer : heap_) timer->index_ = Timer::kIdle;
}

void TimerQueue::arm(Timer& timer, TimePoint when) {
  if (timer.is_armed()) timer.queue_->disarm(timer);
  if (when == kNever) return;
  timer.queue_ = this;
  timer.when_ = when;
  timer.order_ = ++armed_;
  heap_.push_back(&timer);
  place(heap_.size() - 1, &timer);
  sift_up(timer.index_);
}

void TimerQueue::disarm(Timer& timer) noexcept {
  if (!timer.is_armed()) return;
  const std::size_t index = timer.index_;
  timer.index_ = Timer::kIdle;
  Timer* last = heap_.back();
  heap_.pop_back();
  if (last == &timer) return;
  place(index, last);
  sift_up(index);
  sift_down(last->index_);
}

bool TimerQueue::expire_due(TimePoint now) noexcept {
  bool any = false;
  while (!heap_.empty() && heap_.front()->when_ <= now) {
    Timer& timer = *heap_.front();
    disarm(timer);
    timer.expire();
    any = true;
  }
  return any;
}

void TimerQueue::place(std::size_t index, Timer* timer) noexcept {
  heap_[index] = timer;
  timer->index_ = index;
}

void TimerQueue::sift_up(std::size_t index) noexcept {
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (!is_before(*heap_[index], *heap_[parent])) return;
    Timer* moved = heap_[parent];
    place(parent, heap_[index]);
    place(index, moved);
    index = parent;
  }
}

void TimerQueue::sift_down(std::size_t index) noexcept {
  for (;;) {
    std::size_t least = 2 * index + 1;
    if (least >= heap_.size()) return;
    if (least + 1 < heap_.size() && is_before(*heap_[least + 1], *heap_[least])) ++least;
    if (!is_before(*heap_[least], *heap_[index])) return;
    Timer* moved = heap_[least];
    place(least, heap_[index]);
    place(index, moved);
    index = least;
  }
}

}  // namespace cohort
