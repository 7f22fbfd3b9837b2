// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/frame_pool.h>

#include <cohort/engine/system/sanitizers.h>

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kClasses = 32;                // 64 bytes .. 2 KiB
constexpr std::size_t kMostKeptBytes = 256 * 1024;  // of a class, unless told otherwise

constexpr bool kRecycle = !sanitizers::kAddress && !sanitizers::kThread;

struct FreeBlock {
  FreeBlock* next;
  std::size_t bytes_kept;  ///< of its class: in it and in those behind it
};

/// Trivially destructible, so that the fast path needs no initialisation guard and works during thread exit.
struct LocalPool {
  std::array<FreeBlock*, kClasses> free;
  FramePool::Statistics statistics;
  std::size_t most_kept_bytes = kMostKeptBytes;
  bool guarded;
  bool closed;
};
thread_local constinit LocalPool pool{};

/// Gives a dying thread's blocks back to the system.
struct PoolGuard {
  ~PoolGuard() {
    pool.closed = true;
    for (FreeBlock*& list : pool.free)
      while (list != nullptr) std::free(std::exchange(list, list->next));
  }
};

std::size_t size_class(std::size_t bytes) noexcept { return (bytes - 1) / kAlignment; }

/// Before this thread keeps its first block. A thread may have blocks that it never asked the system for.
void guard_pool() {
  thread_local PoolGuard guard;
  (void)guard;
  pool.guarded = true;
}

void* from_system(std::size_t bytes) {
  ++pool.statistics.from_system;
  void* block = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* FramePool::allocate(std::size_t bytes) {
  ++pool.statistics.requests;
  if (bytes > pool.statistics.largest_bytes) pool.statistics.largest_bytes = bytes;
  const std::size_t index = size_class(bytes);
  if (!kRecycle || index >= kClasses) return from_system(bytes);
  FreeBlock*& list = pool.free[index];
  if (list == nullptr) return from_system(bytes);
  return std::exchange(list, list->next);
}

void FramePool::release(void* block, std::size_t bytes) noexcept {
  const std::size_t index = size_class(bytes);
  if (!kRecycle || index >= kClasses || pool.closed) {
    std::free(block);
    return;
  }
  FreeBlock* const list = pool.free[index];
  const std::size_t bytes_kept = (list == nullptr ? 0 : list->bytes_kept) + (index + 1) * kAlignment;
  if (bytes_kept > pool.most_kept_bytes) [[unlikely]] {
    std::free(block);
    return;
  }
  if (!pool.guarded) guard_pool();
  pool.free[index] = new (block) FreeBlock{list, bytes_kept};
}

void FramePool::keep_at_most(std::size_t bytes) noexcept { pool.most_kept_bytes = bytes; }

FramePool::Statistics FramePool::statistics() noexcept { return pool.statistics; }

}  // namespace cohort
