// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/sim/topology.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace cohort::sim {

/// Virtual time, in picoseconds.
using Time = std::int64_t;

/// When a message has left the sender, and when it is there.
struct Passage {
  Time sent = 0;
  Time arrived = 0;
};

/// What carried how much.
struct Use {
  std::string name;
  std::uint64_t bytes = 0;
  Time busy = 0;
};

/// Ports, NICs and uplinks, each of which carries what it is given in turn, at its bandwidth.
///
/// A message begins when its sender's NIC is free and has left when all that it passes have done their
/// bytes / bandwidth for it and for those before it: two flows over one uplink take twice as long together,
/// and flows whose sum an uplink can carry do not slow each other down.
class Network {
 public:
  /// Throws InvalidArgument for a topology that makes no sense for so many ranks.
  Network(const Topology& topology, Rank ranks);

  [[nodiscard]] Passage pass(Rank from, Rank to, std::size_t bytes, Time at);
  [[nodiscard]] Time latency(Rank from, Rank to) const;
  [[nodiscard]] Rank hosts() const noexcept { return hosts_; }
  /// Everything that carried bytes.
  [[nodiscard]] std::vector<Use> uses() const;

 private:
  struct Carrier {
    Time free_at = 0;
    Time busy = 0;
    std::uint64_t bytes = 0;
    double picoseconds_per_byte = 0;

    /// Takes a message over, from `at` on; says when it is through.
    Time carry(std::size_t size, double slowness, Time at);
  };
  struct Degraded {
    double bandwidth_factor = 1;
    double latency_factor = 1;
  };

  [[nodiscard]] Rank host_of(Rank rank) const noexcept { return rank / topology_.ranks_per_host; }
  [[nodiscard]] std::size_t nic_of(Rank rank) const noexcept;
  [[nodiscard]] const Degraded* degraded(Rank from, Rank to) const;

  const Topology topology_;
  const Rank hosts_;
  const std::uint32_t rails_;
  const Rank hosts_per_switch_;
  std::vector<Carrier> ports_;    ///< of rank r: 2r out, 2r + 1 in
  std::vector<Carrier> nics_;     ///< of host h: rails of 2h, ...
  std::vector<Carrier> uplinks_;  ///< of switch s: 2s up, 2s + 1 down
  std::unordered_map<std::uint64_t, Degraded> degraded_;
};

}  // namespace cohort::sim
