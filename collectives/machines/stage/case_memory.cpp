// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/case_memory.h>

#include <cohort/engine/system/sanitizers.h>

#include <array>
#include <bit>
#include <memory>
#include <new>
#include <utility>

namespace cohort::machine {
namespace {

constexpr std::size_t kStep = 16;              // of small classes
constexpr std::size_t kSmall = 512;            // up to which they go
constexpr std::size_t kLargest = 2048 * 1024;  // above, the system's; below, powers of two
constexpr std::size_t kChunk = 4096 * 1024;    // that classes are cut from
constexpr std::size_t kSmallClasses = kSmall / kStep;
constexpr std::size_t kClasses = kSmallClasses + std::bit_width(kLargest / kSmall) - 1;

constexpr bool kRecycle = !sanitizers::kAddress && !sanitizers::kThread;

struct FreeBlock {
  FreeBlock* next;
};

/// Trivially destructible, so that the fast path needs no initialisation guard.
struct LocalMemory {
  std::array<FreeBlock*, kClasses> free;
  std::byte* fresh;  ///< of the chunk in use, what was not handed out
  std::byte* end;
  std::size_t blocks;  ///< handed out now
  std::size_t chunks;  ///< in use
};
thread_local constinit LocalMemory memory{};

std::size_t class_of(std::size_t bytes) noexcept {
  if (bytes <= kSmall) return bytes == 0 ? 0 : (bytes - 1) / kStep;
  return kSmallClasses + static_cast<std::size_t>(std::bit_width((bytes - 1) / kSmall)) - 1;
}

std::size_t bytes_of(std::size_t index) noexcept {
  return index < kSmallClasses ? (index + 1) * kStep : kSmall << (index - kSmallClasses + 1);
}

/// Gives the chunks back when the thread ends; nothing is left in them then.
void use_next_chunk() {
  thread_local std::vector<std::unique_ptr<std::byte[]>> chunks;
  if (memory.chunks == chunks.size()) chunks.push_back(std::make_unique_for_overwrite<std::byte[]>(kChunk));
  memory.fresh = chunks[memory.chunks++].get();
  memory.end = memory.fresh + kChunk;
}

void* cut(std::size_t index) {
  const std::size_t bytes = bytes_of(index);
  if (static_cast<std::size_t>(memory.end - memory.fresh) < bytes) use_next_chunk();
  return std::exchange(memory.fresh, memory.fresh + bytes);
}

/// With nothing handed out, the next case begins where this one did: what it asks for in a row lies in a row,
/// not where the last blocks of this one happened to lie.
void start_anew() noexcept {
  memory.free.fill(nullptr);
  memory.fresh = memory.end = nullptr;
  memory.chunks = 0;
}

}  // namespace

void* CaseMemory::allocate(std::size_t bytes) {
  if (!kRecycle || bytes > kLargest) return ::operator new(bytes);
  ++memory.blocks;
  const std::size_t index = class_of(bytes);
  FreeBlock*& list = memory.free[index];
  if (list == nullptr) return cut(index);
  return std::exchange(list, list->next);
}

void CaseMemory::release(void* block, std::size_t bytes) noexcept {
  if (!kRecycle || bytes > kLargest) return ::operator delete(block);
  if (--memory.blocks == 0) return start_anew();
  FreeBlock*& list = memory.free[class_of(bytes)];
  list = new (block) FreeBlock{list};
}

}  // namespace cohort::machine
