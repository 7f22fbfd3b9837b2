// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/child_view.h>

#include <pthread.h>
#include <sys/mman.h>

#include <mutex>
#include <utility>

namespace cohort {

/// Those of this process, for the child that it is about to have.
class ChildViews {
 public:
  /// Never ended: a process may fork as it exits.
  static ChildViews& all() noexcept {
    static auto& views = *new ChildViews;
    return views;
  }

  void add(ChildView& view) noexcept {
    const std::lock_guard lock(mutex_);
    if (!is_told_of_children_) ::madvise(view.data_, view.bytes_, MADV_DONTFORK);
    view.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &view;
    first_ = &view;
  }
  void remove(const ChildView& view) noexcept {
    const std::lock_guard lock(mutex_);
    ::madvise(view.data_, view.bytes_, MADV_DONTFORK);
    (view.previous_ == nullptr ? first_ : view.previous_->next_) = view.next_;
    if (view.next_ != nullptr) view.next_->previous_ = view.previous_;
  }

 private:
  ChildViews() noexcept
      : is_told_of_children_(::pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                                              [] { all().map(); }) == 0) {}

  /// In the child, whose one thread is the one that has forked.
  void map() noexcept {
    for (ChildView* view = first_; view != nullptr; view = view->next_) {
      if (std::exchange(view->is_private_, true)) continue;
      void* const at =
          ::mmap(view->data_, view->bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
                 view->descriptor_, static_cast<off_t>(view->offset_));
      if (at != MAP_FAILED) continue;
      // A hole would be filled by what the child allocates next.
      (void)::mmap(view->data_, view->bytes_, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    mutex_.unlock();
  }

  const bool is_told_of_children_;
  std::mutex mutex_;
  ChildView* first_ = nullptr;
};

ChildView::ChildView(std::byte* data, std::size_t bytes, int descriptor, std::size_t offset) noexcept
    : data_(data), bytes_(bytes), descriptor_(descriptor), offset_(offset) {
  ChildViews::all().add(*this);
}

ChildView::~ChildView() { ChildViews::all().remove(*this); }

}  // namespace cohort
