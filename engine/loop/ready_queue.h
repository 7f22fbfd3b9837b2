// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <cstddef>
#include <vector>

namespace cohort {

/// Coroutines to resume, in order. A ring that grows to the largest number ever ready and then allocates no
/// more.
class ReadyQueue {
 public:
  ReadyQueue() : ring_(kInitial) {}

  [[nodiscard]] std::size_t size() const noexcept { return tail_ - head_; }
  [[nodiscard]] bool empty() const noexcept { return tail_ == head_; }

  void push(std::coroutine_handle<> handle) noexcept {
    if (size() == ring_.size()) grow();
    ring_[tail_++ & (ring_.size() - 1)] = handle;
  }
  std::coroutine_handle<> pop() noexcept { return ring_[head_++ & (ring_.size() - 1)]; }

 private:
  static constexpr std::size_t kInitial = 256;  // a power of two

  void grow() {
    std::vector<std::coroutine_handle<>> larger(ring_.size() * 2);
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) larger[i] = pop();
    ring_.swap(larger);
    head_ = 0;
    tail_ = count;
  }

  std::vector<std::coroutine_handle<>> ring_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

}  // namespace cohort
