// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/control_graph.h>
#include <cohort/net/membership.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// What rank 0 tells each member of the ranks once all are here: the whole table, or, where they are many on
/// many hosts, that to its children in the binomial tree, and to everybody else the records of his
/// neighbours, over whose connections the table comes then.
///
/// Lifetime: `peers` outlives it.
class ToldTable {
 public:
  /// Tables of fewer ranks are soon sent to each of them.
  static constexpr Rank kLeastForTree = 64;

  /// `links`: which connections are made, in place of what is best.
  explicit ToldTable(std::span<const PeerInfo> peers, std::optional<ControlLinks> links = std::nullopt);

  [[nodiscard]] ControlLinks links() const noexcept { return links_; }
  /// None where all are connected at once.
  [[nodiscard]] std::vector<Rank> neighbours_of(Rank rank) const;
  /// A record per rank.
  [[nodiscard]] std::vector<std::byte> records() const;
  [[nodiscard]] bool is_told_all(Rank rank) const noexcept;
  /// With its head.
  [[nodiscard]] std::span<const std::byte> whole() const noexcept { return whole_; }
  /// The neighbours of a rank that is not told all, with their head.
  [[nodiscard]] std::vector<std::byte> part_for(Rank rank) const;

 private:
  [[nodiscard]] std::vector<std::byte> records_of(std::span<const Rank> ranks) const;

  const std::span<const PeerInfo> peers_;
  const ControlGraph graph_;
  const ControlLinks links_;
  std::vector<std::byte> whole_;
};

}  // namespace cohort
