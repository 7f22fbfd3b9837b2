// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/intrusive_list.h>

#include <vector>

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

  /// Polls one after the other, until one has found something and is_over() says so: the next time begins
  /// with those that were left out. Any of them may be unlinked meanwhile, and stays alive.
  template <class IsOver>
  bool poll(IsOver is_over) noexcept {
    polled_.clear();
    list_.for_each([&](T& item) { polled_.push_back(&item); });
    bool progress = false;
    bool ends_here = false;
    for (T* const item : polled_) {
      if (!item->is_linked()) continue;
      if (ends_here) {
        list_.begin_with(*item);
        break;
      }
      const bool found = item->poll();
      progress |= found;
      ends_here = found && item != polled_.back() && is_over();
    }
    return progress;
  }

 private:
  IntrusiveList<T> list_;
  std::vector<T*> polled_;  ///< in one poll()
};

}  // namespace cohort
