// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/time.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace cohort::sim {

/// What is going to happen, the earliest first. What happens at one moment comes in the order in which it was
/// added, or with a seed other than 0 in one that the seed chooses.
template <class Step>
class Agenda {
 public:
  explicit Agenda(std::uint64_t seed)
      : is_shuffled_(seed != 0), random_(static_cast<std::mt19937::result_type>(seed)) {}

  [[nodiscard]] bool empty() const noexcept { return queue_.empty(); }
  [[nodiscard]] Time next_at() const noexcept { return queue_.front().at; }

  void add(Time at, const Step& step) {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = step;
    const std::uint32_t order = is_shuffled_ ? static_cast<std::uint32_t>(random_()) : added_++;
    queue_.push_back({at, order, slot});
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  /// The earliest; there must be one.
  Step take() {
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    const std::uint32_t slot = queue_.back().slot;
    queue_.pop_back();
    free_slots_.push_back(slot);
    return slots_[slot];
  }

  /// The one after those that were taken, if there is one.
  [[nodiscard]] const Step* next() const noexcept {
    return queue_.empty() ? nullptr : &slots_[queue_.front().slot];
  }

 private:
  struct Entry {
    Time at;
    std::uint32_t order;
    std::uint32_t slot;
    friend bool operator>(const Entry& a, const Entry& b) noexcept {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  const bool is_shuffled_;
  std::mt19937 random_;
  std::uint32_t added_ = 0;
  std::vector<Entry> queue_;  ///< a heap
  std::vector<Step> slots_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace cohort::sim
