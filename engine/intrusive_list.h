// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>

namespace cohort {

/// Membership in one IntrusiveList: inherit it. Unlinks in O(1), allocates nothing.
class ListHook : Immovable {
 public:
  [[nodiscard]] bool is_linked() const noexcept { return next_ != nullptr; }

  void unlink() noexcept {
    if (!is_linked()) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 protected:
  ListHook() = default;
  ~ListHook() = default;

 private:
  template <class T>
  friend class IntrusiveList;

  ListHook* next_ = nullptr;
  ListHook* previous_ = nullptr;
};

/// First in, first out list of objects that inherit ListHook. Owns nothing.
template <class T>
class IntrusiveList : Immovable {
 public:
  IntrusiveList() noexcept { head_.next_ = head_.previous_ = &head_; }
  ~IntrusiveList() { head_.next_ = head_.previous_ = nullptr; }

  [[nodiscard]] bool empty() const noexcept { return head_.next_ == &head_; }

  void push_back(T& item) noexcept {
    ListHook& hook = item;
    hook.previous_ = head_.previous_;
    hook.next_ = &head_;
    head_.previous_->next_ = &hook;
    head_.previous_ = &hook;
  }

  [[nodiscard]] T& front() noexcept { return static_cast<T&>(*head_.next_); }

  /// `item` is the first one from now on; those before it come last, in their order.
  void begin_with(T& item) noexcept {
    ListHook& hook = item;
    head_.unlink();
    head_.previous_ = hook.previous_;
    head_.next_ = &hook;
    hook.previous_->next_ = &head_;
    hook.previous_ = &head_;
  }

  T* pop_front() noexcept {
    if (empty()) return nullptr;
    T& item = front();
    static_cast<ListHook&>(item).unlink();
    return &item;
  }

  /// Calls visit(item) for each; visit may unlink the item it is given, and no other.
  template <class Visit>
  void for_each(Visit visit) {
    for (ListHook* hook = head_.next_; hook != &head_;) {
      ListHook* next = hook->next_;
      visit(static_cast<T&>(*hook));
      hook = next;
    }
  }

 private:
  struct Head : ListHook {
  } head_;
};

}  // namespace cohort
