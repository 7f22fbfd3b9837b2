// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/shared_heap.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

SharedHeap::SharedHeap(SharedMemory& memory, std::size_t offset, std::size_t bytes)
    : memory_(&memory), committed_until_(offset) {
  free_.emplace(offset, bytes);
}

std::byte* SharedHeap::allocate(std::size_t bytes) {
  const std::size_t wanted = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  const auto fit =
      std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= wanted; });
  if (bytes > wanted || fit == free_.end())
    throw Error(
        ErrorKind::ResourceLimit,
        fmt::format(
            "no {} bytes left in this communicator's shared heap; free buffers or set COHORT_HEAPSIZE "
            "higher",
            bytes));
  const auto [offset, available] = *fit;
  if (offset + wanted > committed_until_) {
    memory_->commit(committed_until_, offset + wanted - committed_until_);
    committed_until_ = offset + wanted;
  }
  free_.erase(fit);
  if (available > wanted) free_.emplace(offset + wanted, available - wanted);
  used_.emplace(offset, wanted);
  return memory_->data() + offset;
}

void SharedHeap::release(std::byte* address) noexcept {
  const auto found = used_.find(static_cast<std::size_t>(address - memory_->data()));
  COHORT_ASSERT(found != used_.end(), "{} is no buffer of this heap", static_cast<void*>(address));
  auto [offset, bytes] = *found;
  used_.erase(found);
  const auto after = free_.find(offset + bytes);
  if (after != free_.end()) {
    bytes += after->second;
    free_.erase(after);
  }
  const auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace cohort
