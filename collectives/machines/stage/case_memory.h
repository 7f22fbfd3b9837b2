// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace cohort::machine {

/// Memory for what a machine holds while it runs a case: small blocks by the hundred thousand, all gone at
/// its end, and wanted again by the next one. Each thread has its own, in size classes, and keeps it until it
/// ends.
///
/// A block goes back on the thread that asked for it. Sanitizer builds do not recycle, so that a use after
/// free is seen.
class CaseMemory {
 public:
  static void* allocate(std::size_t bytes);
  static void release(void* block, std::size_t bytes) noexcept;
};

/// For a class whose objects are made one by one.
struct InCaseMemory {
  static void* operator new(std::size_t bytes) { return CaseMemory::allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { CaseMemory::release(block, bytes); }
};

/// For containers.
template <class T>
struct CaseAllocator {
  using value_type = T;

  CaseAllocator() noexcept = default;
  template <class Other>
  CaseAllocator(const CaseAllocator<Other>&) noexcept {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] T* allocate(std::size_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    return static_cast<T*>(CaseMemory::allocate(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept { CaseMemory::release(block, count * sizeof(T)); }
  template <class Other>
  bool operator==(const CaseAllocator<Other>&) const noexcept {
    return true;
  }
};

template <class T>
using CaseVector = std::vector<T, CaseAllocator<T>>;

}  // namespace cohort::machine
