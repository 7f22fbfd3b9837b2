// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/faults.h>
#include <cohort/net/hosts.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cohort::sim {

/// What one message costs on a kind of link: LogGP (Alexandrov et al. 1995), with a processor that moves
/// bytes where no NIC does it alone.
///
/// A message of n bytes takes message_ns of each end's processor, latency_ns on its way, and a port or NIC
/// for max(gap_ns, n / bandwidth). With a core_gigabytes_per_second each end's processor also works for
/// n / that, while the bytes pass. A header passes ports and NICs; its work is part of message_ns.
struct LinkModel {
  double latency_ns = 0;
  double gigabytes_per_second = 1;       ///< 10^9 bytes per second, in each direction
  double message_ns = 0;                 ///< "o": of a processor, to send a message and again to take it
  double gap_ns = 0;                     ///< "g": from one message of a port or NIC to the next, at least
  double core_gigabytes_per_second = 0;  ///< that a processor moves, at each end; 0: it moves none
  std::size_t header_bytes = 0;          ///< that travel with each message, beside its own
};

/// The machines and the network of a simulation.
///
/// Ranks fill hosts one after another: the first hosts as `ranks_of_hosts` says, further ones with
/// `ranks_per_host` each. Ranks of one host reach each other over ports of their own; other hosts through the
/// host's NICs, of which the ranks take turns: the NICs of the first hosts carry what
/// `gigabytes_per_second_of_hosts` says, each, further ones as `network` does.
///
/// Hosts below one switch see full bisection; from switch to switch all NICs of its hosts share one uplink,
/// which has their bandwidth divided by `oversubscription`. All ports, NICs and uplinks are full duplex.
struct Topology {
  Rank ranks_per_host = 1;
  std::vector<Rank> ranks_of_hosts;  ///< of the first hosts, where these differ
  std::uint32_t cores_per_host = 0;  ///< that its ranks share; 0: one for each rank
  bool has_shared_memory = true;     ///< of ranks on one host; otherwise `inside` is a network, as over TCP
  std::uint32_t rails = 0;           ///< NICs of a host; 0: one for each rank
  Rank hosts_per_switch = 0;         ///< 0: one switch for all hosts
  double oversubscription = 1;
  std::vector<double> gigabytes_per_second_of_hosts;  ///< of a NIC of the first hosts, where these differ
  bool is_bandwidth_known = true;                     ///< to schedules; false: as if all hosts had the same
  LinkModel inside{.latency_ns = 500, .gigabytes_per_second = 100};   ///< between ranks of one host
  LinkModel network{.latency_ns = 2000, .gigabytes_per_second = 50};  ///< a NIC
  double switch_latency_ns = 0;                                       ///< more, from switch to switch
  std::size_t cache_bytes = 0;             ///< of a core: pieces over links inside of one host; 0: whole
  double core_switch_ns = 0;               ///< of a shared core, from one rank to another
  double copy_gigabytes_per_second = 0;    ///< of local copies; 0: they take no time
  double reduce_gigabytes_per_second = 0;  ///< of reductions, per byte of an operand; 0: no time
  Faults faults;
};

/// Of one of its NICs.
[[nodiscard]] double gigabytes_per_second_of(const Topology& topology, Rank host);
/// How many NICs a host of so many ranks has.
[[nodiscard]] std::uint32_t rails_of(const Topology& topology, Rank ranks_of_host);

/// Where the ranks are: host h has those from the h-th number to below the next one. Ends with `ranks`.
/// Throws InvalidArgument where a host has none.
[[nodiscard]] std::vector<Rank> host_bounds(const Topology& topology, Rank ranks);

[[nodiscard]] Rank most_ranks_of_a_host(const Topology& topology, Rank ranks);

/// Who shares memory, and which hosts are below one switch. Where hosts do not share theirs, every rank is by
/// itself, as over TCP, and of switches nobody knows.
[[nodiscard]] Hosts hosts_of(const Topology& topology, Rank ranks);

/// Whether all ranks are on the first host.
[[nodiscard]] bool has_one_host(const Topology& topology, Rank ranks);

/// Whether all ranks share the memory of one host.
[[nodiscard]] bool has_one_memory(const Topology& topology, Rank ranks);

/// Throws InvalidArgument for a topology that makes no sense for so many ranks.
void check(const Topology& topology, Rank ranks);

}  // namespace cohort::sim
