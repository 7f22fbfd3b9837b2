// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <cstddef>
#include <optional>
#include <span>

namespace cohort::graph {

/// Where a rank stands among the hosts: colours for split(), negative ones for none.
struct HostPlace {
  int host = 0;     ///< the first rank of its host
  int place = -1;   ///< its number there; -1 where hosts have different numbers of ranks
  int leader = -1;  ///< 0 on the first rank of each host
};
[[nodiscard]] HostPlace host_place(const Communicator& communicator);

/// The groups of a communicator that reductions host by host take.
struct HostGroups {
  std::optional<Communicator> host;          ///< the ranks of this one's host
  std::optional<Communicator> across_hosts;  ///< those with the same place on their hosts; none: hosts differ
  std::optional<Communicator> leaders;       ///< the first rank of each host; none on others

  /// Makes them. A collective: all ranks call it.
  [[nodiscard]] Task<> open(Communicator& communicator);
};

/// Elements of one type, reduced host by host.
struct HostReduction {
  DataType type = DataType::float32;
  ReduceOp reduction = ReduceOp::avg;
  Rank ranks = 1;  ///< of all hosts together: what averages divide by
};

// Form shares: each rank of a host has the sum of its share, as equal as can be; shares are reduced between
// the ranks of one place; all of the host get all shares.
[[nodiscard]] Task<> reduce_to_shares(Communicator& host, HostReduction how, std::span<std::byte> data);
[[nodiscard]] Task<> reduce_share(Communicator& host, Communicator& across, HostReduction how,
                                  std::span<std::byte> data);
[[nodiscard]] Task<> gather_shares(Communicator& host, HostReduction how, std::span<std::byte> data);

// Form leader: rank 0 of a host has the sum; leaders reduce; all get it from theirs.
[[nodiscard]] Task<> reduce_to_leader(Communicator& host, HostReduction how, std::span<std::byte> data);
[[nodiscard]] Task<> reduce_among_leaders(Communicator& leaders, HostReduction how,
                                          std::span<std::byte> data);

}  // namespace cohort::graph
