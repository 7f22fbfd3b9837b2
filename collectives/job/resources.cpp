// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/resources.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/engine/when_all.h>

#include <fmt/format.h>

namespace cohort {

Resources::Resources(Engine& engine, Membership& membership, LinkOwner& host,
                     const PeerTransports::Choice& choice, const PeerTransports::Within* within)
    : membership_(membership),
      buffer_bytes_(choice.buffer_bytes),
      heap_bytes_(choice.heap_bytes),
      is_isolated_(choice.is_isolated),
      has_heap_(within == nullptr),
      transports_(engine, membership, host, choice, within),
      is_host_wide_(transports_.common_capabilities().maps_memory),
      links_(static_cast<std::size_t>(membership.size) * kMostLanes) {
  place_memory();
  transports_.register_memory({ccl_in_, buffer_bytes_});
  transports_.register_memory({ccl_out_, buffer_bytes_});
}

Resources::~Resources() {
  links_.clear();
  for (const std::byte* memory : {ccl_in_, ccl_out_}) transports_.forget_memory(memory);
  if (scratch_) transports_.forget_memory(scratch_.get());
}

void Resources::place_memory() {
  if (host::HostGroup* const group = transports_.group()) {
    ccl_in_ = group->own().at(group->layout().ccl_in());
    ccl_out_ = group->own().at(group->layout().ccl_out());
    return;
  }
  for (Buffer& buffer : private_buffers_) buffer = allocate(buffer_bytes_);
  ccl_in_ = private_buffers_[0].get();
  ccl_out_ = private_buffers_[1].get();
  if (has_heap_) private_heap_ = SharedMemory::create(heap_bytes_);
}

Resources::HeapPlace Resources::heap() noexcept {
  if (host::HostGroup* const group = transports_.group())
    return {group->own().memory(), group->layout().heap(), group->layout().heap_bytes()};
  return {private_heap_, 0, heap_bytes_};
}

Resources::Buffer Resources::allocate(std::size_t bytes) {
  const std::size_t page = memory_map::page_bytes();
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(page, (bytes + page - 1) / page * page));
  if (memory == nullptr)
    throw Error(ErrorKind::ResourceLimit,
                fmt::format("no memory for a buffer of {} bytes; lower COHORT_BUFFSIZE", bytes));
  return Buffer(memory);
}

Task<> Resources::provide(ResourceTag tag, const Needs& needs) {
  if (provided_.contains(tag)) co_return;
  if (needs.scratch_bytes > scratch_bytes_) provide_scratch(needs.scratch_bytes);
  // All at once: each may wait until the peer makes the other end, and one after the other every rank of a
  // ring would wait for the next one.
  std::vector<Task<>> connecting;
  for (Lane lane = 0; lane < needs.lanes; ++lane) {
    for (Rank distance = 1; distance < membership_.size; ++distance) {
      const Rank peer = (membership_.rank + distance) % membership_.size;
      if (!needs.has_link(transports_.hosts(), membership_.rank, peer, lane)) continue;
      if (!place(peer, lane)) connecting.push_back(provide_link(peer, lane));
    }
  }
  co_await when_all(connecting);
  provided_.emplace(tag, needs);
}

void Resources::provide_scratch(std::size_t bytes) {
  Buffer larger = allocate(bytes);
  transports_.register_memory({larger.get(), bytes});
  if (scratch_) transports_.forget_memory(scratch_.get());
  scratch_ = std::move(larger);
  scratch_bytes_ = bytes;
}

Task<> Resources::provide_link(Rank peer, Lane lane) {
  std::unique_ptr<Link> link = co_await transports_.to(peer).connect(peer, lane);
  place(peer, lane) = std::move(link);
}

Link& Resources::link(Rank peer, Lane lane) noexcept {
  Link* found = place(peer, lane).get();
  COHORT_ASSERT(found != nullptr, "the schedule uses a link to rank {} lane {} that it did not ask for", peer,
                lane);
  return *found;
}

void Resources::bind(WindowTable& windows) noexcept {
  windows.bind(WindowId::ccl_in, ccl_in_, buffer_bytes_);
  windows.bind(WindowId::ccl_out, ccl_out_, buffer_bytes_);
  windows.bind(WindowId::scratch, scratch_.get(), scratch_bytes_);
}

}  // namespace cohort
