// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <cstdint>
#include <vector>

namespace cohort::sim {

/// What one message costs on a kind of link: latency_ns + bytes / bandwidth.
struct LinkSpeed {
  double latency_ns = 0;
  double gigabytes_per_second = 1;  ///< 10^9 bytes per second, in each direction
};

/// Every local step of this rank takes `factor` times as long.
struct SlowRank {
  Rank rank = 0;
  double factor = 1;
};
/// The way between two ranks, in both directions, has less bandwidth and more latency.
struct DegradedLink {
  Rank from = 0;
  Rank to = 0;
  double bandwidth_factor = 1;  ///< of the bandwidth that is left: 0.5 is half of it
  double latency_factor = 1;
};
/// What `from` sends to `to` is lost, from message number `step` on (1 is the first).
struct LostLink {
  Rank from = 0;
  Rank to = 0;
  std::uint64_t step = 1;
};
/// The rank stops for ever in its link operation number `step` (1 is the first).
struct DeadRank {
  Rank rank = 0;
  std::uint64_t step = 1;
};

/// The machines and the network of a simulation.
///
/// Ranks fill hosts one after another. Ranks of one host reach each other over ports of their own; other
/// hosts through the host's NICs, of which the ranks take turns. Hosts below one switch see full bisection;
/// from switch to switch all NICs of its hosts share one uplink, which has their bandwidth divided by
/// `oversubscription`. All ports, NICs and uplinks are full duplex.
struct Topology {
  Rank ranks_per_host = 1;
  std::uint32_t rails = 0;    ///< NICs of a host; 0: one for each rank
  Rank hosts_per_switch = 0;  ///< 0: one switch for all hosts
  double oversubscription = 1;
  LinkSpeed inside{500, 100};              ///< between ranks of one host
  LinkSpeed network{2000, 50};             ///< a NIC
  double switch_latency_ns = 0;            ///< more, from switch to switch
  double copy_gigabytes_per_second = 0;    ///< of local copies; 0: they take no time
  double reduce_gigabytes_per_second = 0;  ///< of reductions, per byte of an operand; 0: no time
  std::vector<SlowRank> slow_ranks;
  std::vector<DegradedLink> degraded_links;
  std::vector<LostLink> lost_links;
  std::vector<DeadRank> dead_ranks;
};

}  // namespace cohort::sim
