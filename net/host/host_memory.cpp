// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/host_memory.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace cohort::host {
namespace {

/// Parts begin where huge pages do.
std::size_t in_huge_pages(std::size_t bytes) noexcept {
  return (bytes + SharedMemory::kHugePageBytes - 1) / SharedMemory::kHugePageBytes *
         SharedMemory::kHugePageBytes;
}

/// What only those in it know: this rank's number in it is random, and no other communicator's rank has it.
std::string name_of(const Membership& membership, std::span<const Rank> members) {
  std::string name;
  for (const Rank member : members) name += fmt::format("{:016x}", membership.peers[member].incarnation);
  return name;
}

SharedMemory reserve(const Membership& membership, std::span<const Rank> members, const HostSizes& sizes,
                     bool is_isolated) {
  const std::size_t bytes =
      in_huge_pages(members.size() * sizes.lines_bytes) + members.size() * in_huge_pages(sizes.part_bytes);
  return is_isolated ? SharedMemory::reserve(bytes)
                     : SharedMemory::reserve_together(name_of(membership, members), bytes);
}

std::vector<Rank> on_other_engines(const Membership& membership, std::span<const Rank> members) {
  std::vector<Rank> others;
  std::ranges::copy_if(members, std::back_inserter(others),
                       [&](Rank member) { return !membership.shares_engine(member); });
  return others;
}

}  // namespace

HostMemory::HostMemory(Engine& engine, const Membership& membership, std::span<const Rank> members,
                       const HostSizes& sizes, bool is_isolated)
    : engine_(engine),
      rank_(membership.rank),
      members_(members.begin(), members.end()),
      on_other_engines_(on_other_engines(membership, members)),
      lines_bytes_(sizes.lines_bytes),
      whole_(reserve(membership, members, sizes, is_isolated)),
      parts_(membership.size),
      doorbells_(membership.size),
      listener_(engine, words_of(rank_)) {
  const std::size_t lines_bytes = members.size() * lines_bytes_;
  std::size_t begin = in_huge_pages(lines_bytes);
  for (const Rank member : members) {
    parts_[member] = whole_.part(begin, sizes.part_bytes);
    begin += in_huge_pages(sizes.part_bytes);
  }
  doorbells_[rank_] = Doorbell(words_of(rank_), Descriptor());
  if (rank_ != members.front()) return;
  whole_.back_by_new();
  whole_.commit_zeros(0, lines_bytes);
  backed();
}

void HostMemory::backed() {
  is_backed_ = true;
  std::vector<const CoreWord*> words;
  for (const Rank peer : on_other_engines_) words.push_back(&words_of(peer).core);
  cores_.emplace(engine_.core_peers().groups(), words_of(rank_).core, std::move(words));
}

std::byte* HostMemory::lines(Rank of) const noexcept {
  const auto place = std::ranges::lower_bound(members_, of) - members_.begin();
  return whole_.data() + static_cast<std::size_t>(place) * lines_bytes_;
}

DoorbellWords& HostMemory::words_of(Rank rank) const noexcept {
  return *reinterpret_cast<DoorbellWords*>(lines(rank));
}

std::vector<int> HostMemory::descriptors_for_peers() const {
  std::vector<int> descriptors;
  if (rank_ == members_.front()) descriptors.push_back(whole_.descriptor());
  if (listener_.event_descriptor() >= 0) descriptors.push_back(listener_.event_descriptor());
  return descriptors;
}

void HostMemory::adopt(Rank peer, std::vector<Descriptor> descriptors) {
  const bool is_first = peer == members_.front();
  const std::size_t least = is_first ? 1 : 0;
  if (descriptors.size() < least || descriptors.size() > least + 1)
    throw Error(ErrorKind::ProtocolError,
                fmt::format("rank {} passed {} descriptors for its shared memory, expected {} or {}", peer,
                            descriptors.size(), least, least + 1))
        .with_culprit(peer);
  if (is_first) {
    whole_.back_by(std::move(descriptors.front()));
    backed();
  }
  Descriptor event = descriptors.size() > least ? std::move(descriptors.back()) : Descriptor();
  doorbells_[peer] = Doorbell(words_of(peer), std::move(event));
}

}  // namespace cohort::host
