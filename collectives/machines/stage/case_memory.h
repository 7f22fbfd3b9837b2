// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/sanitizers.h>

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <utility>
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
  static void* allocate(std::size_t bytes) {
    if (!kRecycles || bytes > kLargest) return ::operator new(bytes);
    ++local.blocks;
    const std::size_t index = class_of(bytes);
    FreeBlock*& list = local.free[index];
    return list == nullptr ? cut(index) : std::exchange(list, list->next);
  }
  static void release(void* block, std::size_t bytes) noexcept {
    if (!kRecycles || bytes > kLargest) return ::operator delete(block);
    if (--local.blocks == 0) return start_anew();
    FreeBlock*& list = local.free[class_of(bytes)];
    list = new (block) FreeBlock{list};
  }

 private:
  static constexpr std::size_t kStep = 16;              ///< of small classes
  static constexpr std::size_t kSmall = 512;            ///< up to which they go; then powers of two
  static constexpr std::size_t kLargest = 2048 * 1024;  ///< above, the system's
  static constexpr std::size_t kSmallClasses = kSmall / kStep;
  static constexpr std::size_t kClasses = kSmallClasses + std::bit_width(kLargest / kSmall) - 1;
  static constexpr bool kRecycles = !sanitizers::kAddress && !sanitizers::kThread;

  struct FreeBlock {
    FreeBlock* next;
  };
  /// Trivially destructible, so that the fast path needs no initialisation guard.
  struct Local {
    std::array<FreeBlock*, kClasses> free;
    std::byte* fresh;  ///< of the chunk in use, what was not handed out
    std::byte* end;
    std::size_t blocks;  ///< handed out now
    std::size_t chunks;  ///< in use
  };

  static std::size_t class_of(std::size_t bytes) noexcept {
    if (bytes <= kSmall) return bytes == 0 ? 0 : (bytes - 1) / kStep;
    return kSmallClasses + static_cast<std::size_t>(std::bit_width((bytes - 1) / kSmall)) - 1;
  }
  static void use_next_chunk();
  static void* cut(std::size_t index);
  static void start_anew() noexcept;

  static thread_local constinit inline Local local{};
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
    // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer.
    return static_cast<T*>(CaseMemory::allocate(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer.
    CaseMemory::release(static_cast<void*>(block), count * sizeof(T));
  }
  template <class Other>
  bool operator==(const CaseAllocator<Other>&) const noexcept {
    return true;
  }
};

template <class T>
using CaseVector = std::vector<T, CaseAllocator<T>>;

}  // namespace cohort::machine
