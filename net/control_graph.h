// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/hosts.h>
#include <cohort/net/membership.h>
#include <cohort/net/rank.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// Which control connections are made while joining. On the wire: the values stay.
enum class ControlLinks : std::uint8_t {
  all = 0,         ///< all at once: rank 0 tells each rank the whole table
  neighbours = 2,  ///< those of the graph, over which the table travels
};

/// Who is whose neighbour in the control plane: all ranks of a host, and between hosts the ranks that are
/// 2^k apart around the ring of all ranks (a binomial graph, as ULFM's reliable broadcast has it).
///
/// Between hosts a rank of p has at most 2 ⌈log2 p⌉ neighbours, and what goes down the binomial tree of any
/// rank, all of whose edges are in the graph, reaches everybody in ⌈log2 p⌉ steps. Where that would be hardly
/// fewer than all, it is all.
class ControlGraph {
 public:
  /// Ranks on other hosts: where none has more of them, all are neighbours.
  static constexpr std::size_t kMostOfOtherHosts = 16;

  explicit ControlGraph(Hosts hosts);
  /// Whose host ids are known of all.
  [[nodiscard]] static ControlGraph of(std::span<const PeerInfo> peers);

  [[nodiscard]] bool is_complete() const noexcept { return is_complete_; }
  /// Ascending.
  [[nodiscard]] std::vector<Rank> neighbours_of(Rank rank) const;

  /// Those that are 2^k apart, whatever their hosts, ascending: what a rank knows of its neighbours without
  /// the hosts of others.
  [[nodiscard]] static std::vector<Rank> around(Rank rank, Rank size);
  /// In the binomial tree of rank 0; nobody: it is rank 0.
  [[nodiscard]] static std::optional<Rank> parent_of(Rank rank) noexcept;
  /// Ascending: the nearest one has the most below itself.
  [[nodiscard]] static std::vector<Rank> children_of(Rank rank, Rank size);

 private:
  Hosts hosts_;
  bool is_complete_;
};

}  // namespace cohort
