// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>

#include <cstddef>

namespace cohort {

/// A shared mapping of which a child of fork() gets a private view instead: it reads what is there, and what
/// it writes is its own. What the parent and its peers write later it sees in pages that it has not written.
///
/// Where the kernel has no memory for that, the child has nothing mapped there. exec and vfork are no matter.
/// A child of the child has a copy of its parent's view.
/// Threads: any. Lifetime: at most the mapping's, with its descriptor open.
class ChildView : Immovable {
 public:
  /// `data`: where the descriptor's byte of that offset is mapped.
  ChildView(std::byte* data, std::size_t bytes, int descriptor, std::size_t offset = 0) noexcept;
  /// From then on children have nothing mapped there.
  ~ChildView();

 private:
  friend class ChildViews;

  std::byte* const data_;
  const std::size_t bytes_;
  const int descriptor_;
  const std::size_t offset_;
  bool is_private_ = false;  ///< in a child: it was its parent's
  ChildView* next_ = nullptr;
  ChildView* previous_ = nullptr;
};

}  // namespace cohort
