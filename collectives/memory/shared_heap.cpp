// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/shared_heap.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/memory_map.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kHugePage = SharedMemory::kHugePageBytes;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

SharedHeap::SharedHeap(SharedMemory& memory, std::size_t offset, std::size_t bytes, bool uses_huge_pages,
                       PeerTransports* users)
    : memory_(&memory),
      users_(users),
      size_bytes_(bytes),
      uses_huge_pages_(uses_huge_pages),
      committed_until_(offset) {
  free_.emplace(offset, bytes);
}

void SharedHeap::refuse(std::size_t bytes) const {
  throw Error(ErrorKind::ResourceLimit,
              fmt::format("no {} bytes left in this communicator's shared heap of {}; free buffers or set "
                          "COHORT_HEAPSIZE higher",
                          bytes, size_bytes_));
}

/// What exceeds the heap is refused before anything is added to it.
std::byte* SharedHeap::allocate(std::size_t bytes) {
  if (bytes > size_bytes_) refuse(bytes);
  const std::size_t wanted = std::max(memory_map::page_bytes(), round_up(bytes, memory_map::page_bytes()));
  const std::size_t alignment = wanted >= kHugePage ? kHugePage : memory_map::page_bytes();
  const auto place_in = [&](const auto& range) { return round_up(range.first, alignment); };
  const auto fit = std::find_if(free_.begin(), free_.end(), [&](const auto& range) {
    return place_in(range) + wanted <= range.first + range.second;
  });
  if (fit == free_.end()) refuse(bytes);
  const std::size_t offset = place_in(*fit);
  commit_until(offset + wanted);
  take(fit, offset, wanted);
  try {
    tell_of(memory_->data() + offset, wanted);
  } catch (...) {
    release(memory_->data() + offset);
    throw;
  }
  return memory_->data() + offset;
}

std::size_t SharedHeap::reserve(std::size_t bytes) {
  if (bytes > size_bytes_) refuse(bytes);
  const std::size_t wanted = round_up(bytes, memory_map::page_bytes());
  const auto fit =
      std::find_if(free_.rbegin(), free_.rend(), [&](const auto& range) { return wanted <= range.second; });
  if (fit == free_.rend()) refuse(bytes);
  const std::size_t offset =
      (fit->first + fit->second - wanted) / memory_map::page_bytes() * memory_map::page_bytes();
  if (offset < fit->first) refuse(bytes);
  take(std::prev(fit.base()), offset, wanted);
  memory_->discard(offset, wanted);                       // what an earlier owner has left
  committed_until_ = std::min(committed_until_, offset);  // those pages are gone
  return offset;
}

void SharedHeap::shorten(std::size_t offset, std::size_t bytes) {
  const auto found = used_.find(offset);
  COHORT_ASSERT(found != used_.end(), "nothing is reserved at {}", offset);
  const std::size_t kept = round_up(bytes, memory_map::page_bytes());
  if (kept >= found->second) return;
  const Range rest = used_.emplace(offset + kept, found->second - kept).first;
  found->second = kept;
  free(rest);
}

void SharedHeap::give_back(std::size_t offset) noexcept {
  const auto found = used_.find(offset);
  COHORT_ASSERT(found != used_.end(), "nothing is reserved at {}", offset);
  memory_->discard(offset, found->second);
  free(found);
}

void SharedHeap::take(Range from, std::size_t offset, std::size_t bytes) {
  const auto [free_offset, free_bytes] = *from;
  const std::size_t end = free_offset + free_bytes;
  const Range used = used_.emplace(offset, bytes).first;
  try {
    if (offset + bytes < end) free_.emplace(offset + bytes, end - offset - bytes);
  } catch (...) {
    used_.erase(used);
    throw;
  }
  if (offset > free_offset)
    from->second = offset - free_offset;
  else
    free_.erase(from);
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
  tell_of_end(address);
  free(found);
}

/// Without an allocation: it may be what follows from there being no memory.
void SharedHeap::free(Range used) noexcept {
  auto node = used_.extract(used);
  const std::size_t offset = node.key();
  std::size_t& bytes = node.mapped();
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
  free_.insert(std::move(node));
}

void SharedHeap::adopt(std::byte* address, std::size_t bytes) {
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("cannot register {0} bytes at {1}: {2}; give whole pages of ordinary memory, as "
                            "of std::aligned_alloc({3}, n * {3}), or use allocate()",
                            bytes, static_cast<void*>(address), why, memory_map::page_bytes()));
  };
  const std::size_t page = memory_map::page_bytes();
  if (bytes == 0 || reinterpret_cast<std::uintptr_t>(address) % page != 0 || bytes % page != 0)
    refuse(fmt::format("it is not whole pages of {} bytes", page));
  if (const std::string why = memory_map::why_not_ordinary(address, bytes); !why.empty()) refuse(why);
  std::byte* const place = allocate(bytes);
  std::memcpy(place, address, bytes);
  try {
    Adopted& adopted = adopted_[address];
    adopted.bytes = bytes;
    adopted.place = place;
    memory_->map_over(address, static_cast<std::size_t>(place - memory_->data()), bytes, adopted.view);
  } catch (...) {
    adopted_.erase(address);
    release(place);
    throw;
  }
  try {
    tell_of(address, bytes);
  } catch (...) {
    restore(address);  // which is mapped from the place: that is free only when it is not any more
    throw;
  }
}

/// Without memory for a private copy it stays where it is, and keeps its place in the heap.
void SharedHeap::restore(std::byte* address) noexcept {
  const auto found = adopted_.find(address);
  COHORT_ASSERT(found != adopted_.end(), "{} is not registered here", static_cast<void*>(address));
  const std::size_t bytes = found->second.bytes;
  std::byte* const place = found->second.place;
  adopted_.erase(found);
  tell_of_end(address);
  if (memory_map::make_private(address, bytes)) release(place);
}

std::optional<std::uint64_t> SharedHeap::offset_of(const std::byte* address,
                                                   std::size_t bytes) const noexcept {
  if (memory_ == nullptr) return std::nullopt;
  if (memory_->contains(address, bytes)) return static_cast<std::uint64_t>(address - memory_->data());
  const auto after = adopted_.upper_bound(address);
  if (after == adopted_.begin()) return std::nullopt;
  const auto& [begin, adopted] = *std::prev(after);
  const auto at = static_cast<std::size_t>(address - begin);
  if (at > adopted.bytes || bytes > adopted.bytes - at) return std::nullopt;
  return static_cast<std::uint64_t>(adopted.place - memory_->data()) + at;
}

}  // namespace cohort
