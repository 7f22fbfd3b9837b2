// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/stage/case_memory.h>

#include <cstddef>
#include <utility>

namespace cohort::machine {

/// First in, first out; costs nothing while it is empty, as most are.
template <class T>
class Line {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == items_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return items_.size() - first_; }
  [[nodiscard]] T& front() noexcept { return items_[first_]; }
  [[nodiscard]] const T& front() const noexcept { return items_[first_]; }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void pop_front() {
    if (++first_ < items_.size()) return;
    items_.clear();
    first_ = 0;
  }
  [[nodiscard]] auto begin() const noexcept { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  [[nodiscard]] auto end() const noexcept { return items_.end(); }
  void clear() noexcept {
    items_.clear();
    first_ = 0;
  }

 private:
  CaseVector<T> items_;
  std::size_t first_ = 0;
};

}  // namespace cohort::machine
