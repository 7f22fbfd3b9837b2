// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/data_connections.h>
#include <cohort/net/host/host_group.h>
#include <cohort/net/hosts.h>
#include <cohort/net/transport.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort {

/// The transports of one communicator: for each peer the first kind that reaches it, and the group of those
/// ranks whose memory is mapped here.
///
/// Both ends of a pair come to the same choice, because a kind's answer is the same at both ends; what the
/// ranks were told may still differ, so each compares name_for() with the peer's in the hellos. Threads: the
/// engine's. Lifetime: outlives all links.
class PeerTransports : Immovable {
 public:
  struct Choice {
    std::span<const TransportKind> kinds;  ///< in order of preference
    std::string asked;                     ///< the only kind that may be used; empty: all of them
    std::size_t buffer_bytes = 0;
    std::size_t heap_bytes = 0;
    bool is_isolated = false;
    Rank hosts_per_switch = 0;         ///< 0: not known
    std::uint32_t host_bandwidth = 0;  ///< of this host's network; 0: not known
    /// Of each lane to another host over TCP, or kMeasuredConnections.
    unsigned tcp_connections = 1;

    /// Throws InvalidArgument if there is no kind of the name that was asked for.
    void check() const;
    /// What this host has for the first of these kinds that needs devices and may be used: PeerInfo::fabric.
    [[nodiscard]] std::uint64_t fabric(Engine& engine) const;
  };

  /// What a group's ride on: those of the communicator that was joined. Outlives them.
  struct Within {
    PeerTransports& root;
    const GroupPlace& place;
  };

  /// Makes what is needed for the peers that there are. Throws InvalidArgument, Unsupported where a peer is
  /// not reached, ResourceLimit; for a group ProtocolError where a region is none.
  PeerTransports(Engine& engine, Membership& membership, LinkOwner& host, const Choice& choice,
                 const Within* within = nullptr);
  ~PeerTransports();

  /// How this rank reaches its peers: "shm", "tcp", "shm+tcp".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::string_view name_for(Rank peer) const noexcept { return kind_of_[peer]->name; }
  [[nodiscard]] const Capabilities& capabilities(Rank peer) const noexcept { return kind_of_[peer]->can; }
  /// What it has in common with all peers: alone, what it has with itself.
  [[nodiscard]] Capabilities common_capabilities() const noexcept;
  [[nodiscard]] Transport& to(Rank peer) noexcept;

  /// The ranks whose memory is mapped here; null if there is nobody, and memory is not even shared with
  /// oneself.
  [[nodiscard]] host::HostGroup* group() noexcept { return group_.get(); }
  [[nodiscard]] const host::HostGroup* group() const noexcept { return group_.get(); }
  /// Its members, or this rank alone. In rank order.
  [[nodiscard]] std::span<const Rank> ranks_of_host() const noexcept { return ranks_of_host_; }
  /// What all ranks have said of that, the same on all of them; of a group from the start, else from when
  /// they have said it.
  [[nodiscard]] const Hosts& hosts() const noexcept { return hosts_; }
  /// What each rank says of its host, by rank.
  struct SaidOfHost {
    Rank first = 0;               ///< of its ranks; is one
    std::uint32_t bandwidth = 0;  ///< 0: not known
  };
  /// Throws Mismatch, with the culprit, if the first ranks are no partition, or not what this rank sees of
  /// it, and if ranks of one host differ in its bandwidth, or hosts in whether they know theirs.
  void learn_hosts(const Membership& membership, std::span<const SaidOfHost> said);
  [[nodiscard]] DataConnections& connections() noexcept { return connections_; }
  [[nodiscard]] Rank hosts_per_switch() const noexcept { return hosts_per_switch_; }
  /// Of each lane to another host over TCP, or kMeasuredConnections: what was chosen.
  [[nodiscard]] unsigned tcp_connections() const noexcept { return tcp_connections_; }
  /// As Transport's.
  void use_connections(unsigned spread_over, unsigned made) noexcept;
  [[nodiscard]] std::uint32_t host_bandwidth() const noexcept { return host_bandwidth_; }

  // To every transport that is in use:
  void register_memory(std::span<std::byte> memory);
  void forget_memory(const std::byte* memory) noexcept;
  void start(TaskScope& services);
  void collective_started() noexcept {
    for (Transport* transport : hearing_) transport->collective_started();
  }
  [[nodiscard]] bool is_cut_off(Rank peer) const noexcept;
  [[nodiscard]] Task<> until_sent();
  void shutdown() noexcept;

 private:
  void choose(const Membership& membership, const Choice& choice);
  void check_first(const Membership& membership, std::span<const SaidOfHost> said, Rank peer) const;
  void name_choice(const Membership& membership, const Choice& choice);
  [[nodiscard]] bool shares_memory() const noexcept;
  void make_all(const Choice& choice, TransportUse use, PeerTransports* root);

  std::vector<const TransportKind*> kind_of_;  ///< by rank, this one included
  std::vector<Rank> ranks_of_host_;
  const Rank hosts_per_switch_;
  const unsigned tcp_connections_;
  const std::uint32_t host_bandwidth_;
  Hosts hosts_;
  std::string name_;
  std::unique_ptr<host::HostGroup> group_;
  DataConnections connections_;
  std::vector<std::unique_ptr<Transport>> made_;
  std::vector<Transport*> of_peer_;  ///< by rank; null for this one
  std::vector<Transport*> hearing_;
};

}  // namespace cohort
