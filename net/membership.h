// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/io/socket.h>
#include <cohort/engine/system/core_set.h>
#include <cohort/net/auth/identity.h>
#include <cohort/net/auth/secret.h>
#include <cohort/net/core_supply.h>
#include <cohort/net/encryption.h>
#include <cohort/net/rank.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cohort {

/// Who one rank is and where it can be reached: what joining tells everybody about everybody.
struct PeerInfo {
  Rank rank = 0;
  std::uint32_t process = 0;  ///< pid, as that rank sees itself: for people
  /// Its pid as this process sees it, by the kernel's word; 0: on another host, or not visible from this PID
  /// namespace. Not told to others.
  std::uint32_t visible_process = 0;
  std::uint64_t incarnation = 0;        ///< random per joining: tells a restarted rank from its former self
  std::uint64_t engine = 0;             ///< equal on ranks that take turns on one engine
  std::array<std::byte, 16> host_id{};  ///< equal on ranks that can share memory and abstract Unix sockets
  std::uint64_t machine_id = 0;         ///< equal on ranks that one kernel runs, in containers or not
  CoreSet cores;                        ///< of that machine, that it may run on
  std::string host;                     ///< host name, for people
  Address data_address;                 ///< where it accepts TCP data connections
  /// Equal on ranks whose RDMA devices reach each other: the network they are on; 0: it uses none.
  std::uint64_t fabric = 0;
  /// In a group: which rank of the communicator that was joined it is. Not told to others.
  std::optional<Rank> world_rank{};

  /// "rank 3 (node7, pid 4121)", in a group "rank 3 (world rank 11, node7, pid 4121)", for errors.
  [[nodiscard]] std::string describe() const;
};

/// The result of joining: everybody's table, and an authenticated control connection to each of them, or,
/// where they are many on many hosts, to the neighbours in the ControlGraph.
struct Membership {
  std::string name;  ///< of the communicator
  JobId job;         ///< as every connection of it claims
  Rank rank = 0;
  Rank size = 1;
  std::uint64_t incarnation = 0;
  Duration host_timeout{};                      ///< a host that has not answered for that long is lost
  Encryption encryption = Encryption::allowed;  ///< of connections that leave this host
  Secret secret;
  std::vector<PeerInfo> peers;  ///< by rank, this one included
  std::vector<Socket> control;  ///< by rank; own entry closed. Unix sockets within a host, TCP otherwise
  /// With whom there is a control connection from the start, ascending; none: with all.
  std::vector<Rank> neighbours;
  Listener data_listener;  ///< TCP, for data connections
  /// Whether PeerInfo::visible_process was filled in: whose is 0 then is alone in a PID namespace.
  bool are_processes_seen = false;

  [[nodiscard]] const PeerInfo& self() const { return peers[rank]; }
  [[nodiscard]] bool shares_host(Rank peer) const { return peers[peer].host_id == self().host_id; }
  /// Whether one kernel has the cores of both: on one host, or in containers of one machine.
  [[nodiscard]] bool shares_machine(Rank peer) const { return peers[peer].machine_id == self().machine_id; }
  [[nodiscard]] bool shares_process(Rank peer) const {
    return shares_host(peer) && peers[peer].visible_process == self().visible_process;
  }
  /// Whether there are ranks with which this one has no control connection before it needs one.
  [[nodiscard]] bool is_sparse() const noexcept { return !neighbours.empty(); }
  [[nodiscard]] bool is_neighbour(Rank peer) const noexcept {
    return !is_sparse() || std::ranges::binary_search(neighbours, peer);
  }
  /// Whether they take turns on one thread.
  [[nodiscard]] bool shares_engine(Rank peer) const {
    return shares_process(peer) && peers[peer].engine == self().engine;
  }
  /// Engines of this machine for each core that they want: of all of them together, or, if that is more, of
  /// those that have no core but this rank's. Above 1 this one should give its core away rather than spin on
  /// it.
  [[nodiscard]] double engines_per_core() const;
  /// A core for this rank, if each rank of its machine can have one: in rank order each takes the first of
  /// its cores in this order that is left.
  [[nodiscard]] std::optional<std::size_t> own_core(std::span<const unsigned> order) const;
  /// Whether each can, in the order of numbers, and how many are left.
  [[nodiscard]] CoreSupply core_supply() const;
  [[nodiscard]] std::size_t ranks_of_host() const;
  [[nodiscard]] std::size_t ranks_of_machine() const;
  /// Of all ranks of this machine.
  [[nodiscard]] CoreSet cores_of_machine() const;
  /// Whether a core that this rank yields goes to no other rank of its machine: because that is in another
  /// session, or on another host, and so in a container. Of hosts that a program only told apart YieldBudget
  /// finds out. Blocks.
  [[nodiscard]] bool is_any_apart() const;
};

}  // namespace cohort
