// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/intrusive_list.h>

#include <array>
#include <cstddef>

namespace cohort {

/// What is polled in every turn of the loop, as far as the turn lasts. Owns nothing; each T has `bool poll()
/// noexcept`, true if it found something.
template <class T>
class PollList {
 public:
  [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
  void push_back(T& item) noexcept { list_.push_back(item); }
  template <class Visit>
  void for_each(Visit visit) {
    list_.for_each(visit);
  }

  /// So many in one poll().
  static constexpr std::size_t kMost = 256;

  /// Polls one after the other, until one has found something and is_over() says so: the next time begins
  /// with those that were left out. Any of them may be unlinked meanwhile, and stays alive.
  template <class IsOver>
  bool poll(IsOver is_over) noexcept {
    std::size_t count = 0;
    T* beyond = nullptr;
    list_.for_each([&](T& item) {
      if (count < kMost)
        polled_[count++] = &item;
      else if (beyond == nullptr)
        beyond = &item;
    });
    bool progress = false;
    bool ends_here = false;
    for (std::size_t i = 0; i < count; ++i) {
      T& item = *polled_[i];
      if (!item.is_linked()) continue;
      if (ends_here) {
        list_.begin_with(item);
        return progress;
      }
      const bool found = item.poll();
      progress |= found;
      ends_here = found && i + 1 < count && is_over();
    }
    if (beyond != nullptr && beyond->is_linked()) list_.begin_with(*beyond);
    return progress;
  }

 private:
  IntrusiveList<T> list_;
  std::array<T*, kMost> polled_{};  ///< in one poll(), which allocates nothing
};

}  // namespace cohort
