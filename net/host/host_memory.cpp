// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/host_memory.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

namespace cohort::host {
namespace {

DoorbellWords& words_of(const SharedMemory& segment) {
  return *reinterpret_cast<DoorbellWords*>(segment.data());
}

std::vector<SharedMemory> segments_with_own(const Membership& membership, std::size_t segment_bytes) {
  std::vector<SharedMemory> segments(membership.size);
  segments[membership.rank] = SharedMemory::create(segment_bytes);
  return segments;
}

}  // namespace

HostMemory::HostMemory(Engine& engine, const Membership& membership, std::size_t segment_bytes)
    : rank_(membership.rank),
      segment_bytes_(segment_bytes),
      segments_(segments_with_own(membership, segment_bytes)),
      doorbells_(membership.size),
      listener_(engine, words_of(segments_[rank_])) {
  doorbells_[rank_] = Doorbell(words_of(segments_[rank_]), Descriptor());
}

std::vector<int> HostMemory::descriptors_for_peers() const {
  std::vector<int> descriptors = {segments_[rank_].descriptor()};
  if (listener_.event_descriptor() >= 0) descriptors.push_back(listener_.event_descriptor());
  return descriptors;
}

void HostMemory::adopt(Rank peer, bool is_in_process, std::vector<Descriptor> descriptors) {
  if (descriptors.empty() || descriptors.size() > kMostDescriptors)
    throw Error(ErrorKind::ProtocolError,
                fmt::format("rank {} passed {} descriptors for its segment, expected 1 or 2", peer,
                            descriptors.size()))
        .with_culprit(peer);
  const auto map = is_in_process ? SharedMemory::share : SharedMemory::map;
  segments_[peer] = map(std::move(descriptors[0]), segment_bytes_);
  Descriptor event = descriptors.size() > 1 ? std::move(descriptors[1]) : Descriptor();
  doorbells_[peer] = Doorbell(words_of(segments_[peer]), std::move(event));
}

}  // namespace cohort::host
