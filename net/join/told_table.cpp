// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/told_table.h>

#include <cohort/net/join/join_frame.h>

#include <numeric>

namespace cohort {
namespace {

ControlLinks best_links(std::size_t ranks, const ControlGraph& graph) {
  const bool are_many = ranks >= ToldTable::kLeastForTree && !graph.is_complete();
  return are_many ? ControlLinks::neighbours : ControlLinks::all;
}

}  // namespace

ToldTable::ToldTable(std::span<const PeerInfo> peers, std::optional<ControlLinks> links)
    : peers_(peers),
      graph_(ControlGraph::of(peers)),
      links_(links.value_or(best_links(peers.size(), graph_))),
      whole_(records()) {
  const JoinFrameBytes head = encode_table(links_);
  whole_.insert(whole_.begin(), head.begin(), head.end());
}

std::vector<Rank> ToldTable::neighbours_of(Rank rank) const {
  if (links_ == ControlLinks::all) return {};
  return graph_.neighbours_of(rank);
}

std::vector<std::byte> ToldTable::records() const {
  std::vector<Rank> all(peers_.size());
  std::iota(all.begin(), all.end(), Rank{0});
  return records_of(all);
}

bool ToldTable::is_told_all(Rank rank) const noexcept {
  return links_ == ControlLinks::all || ControlGraph::parent_of(rank) == Rank{0};
}

std::vector<std::byte> ToldTable::part_for(Rank rank) const {
  const std::vector<Rank> neighbours = graph_.neighbours_of(rank);
  const JoinFrameBytes head = encode_neighbours(links_, static_cast<Rank>(neighbours.size()));
  std::vector<std::byte> part = records_of(neighbours);
  part.insert(part.begin(), head.begin(), head.end());
  return part;
}

std::vector<std::byte> ToldTable::records_of(std::span<const Rank> ranks) const {
  std::vector<std::byte> records(ranks.size() * kPeerRecordBytes);
  for (std::size_t index = 0; index < ranks.size(); ++index)
    encode_record(peers_[ranks[index]],
                  std::span(records).subspan(index * kPeerRecordBytes).first<kPeerRecordBytes>());
  return records;
}

}  // namespace cohort
