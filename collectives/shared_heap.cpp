// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/shared_heap.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = SharedMemory::kHugePageBytes;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

SharedHeap::SharedHeap(SharedMemory& memory, std::size_t offset, std::size_t bytes, bool uses_huge_pages)
    : memory_(&memory), uses_huge_pages_(uses_huge_pages), committed_until_(offset) {
  free_.emplace(offset, bytes);
}

std::byte* SharedHeap::allocate(std::size_t bytes) {
  const std::size_t wanted = std::max(kPage, round_up(bytes, kPage));
  const std::size_t alignment = wanted >= kHugePage ? kHugePage : kPage;
  const auto place_in = [&](const auto& range) { return round_up(range.first, alignment); };
  const auto fit = std::find_if(free_.begin(), free_.end(), [&](const auto& range) {
    return place_in(range) + wanted <= range.first + range.second;
  });
  if (bytes > wanted || fit == free_.end())
    throw Error(
        ErrorKind::ResourceLimit,
        fmt::format(
            "no {} bytes left in this communicator's shared heap; free buffers or set COHORT_HEAPSIZE "
            "higher",
            bytes));
  const auto [free_offset, free_bytes] = *fit;
  const std::size_t offset = place_in(*fit);
  commit_until(offset + wanted);
  free_.erase(fit);
  if (offset > free_offset) free_.emplace(free_offset, offset - free_offset);
  const std::size_t end = free_offset + free_bytes;
  if (offset + wanted < end) free_.emplace(offset + wanted, end - offset - wanted);
  used_.emplace(offset, wanted);
  return memory_->data() + offset;
}

void SharedHeap::commit_until(std::size_t end) {
  if (end <= committed_until_) return;
  memory_->commit(committed_until_, end - committed_until_);
  if (uses_huge_pages_) (void)memory_->use_huge_pages(committed_until_, end - committed_until_);
  committed_until_ = end;
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
