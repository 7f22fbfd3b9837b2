// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/time.h>
#include <cohort/collectives/machines/sim/topology.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace cohort::sim {

/// When a message has left the sender, when its first byte is there, and its last.
struct Passage {
  Time sent = 0;
  Time first = 0;
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
  /// Of a topology that check() lets pass.
  Network(const Topology& topology, Rank ranks);

  /// A message takes its place at the sender's port or NIC. Says when it begins to leave.
  [[nodiscard]] Time leave(Rank from, Rank to, std::size_t bytes, Time at);
  /// What it passes then, from the moment that leave() said on. To be asked for in the order of these
  /// moments: who is asked first carries first.
  [[nodiscard]] Passage pass(Rank from, Rank to, std::size_t bytes, Time begin);
  [[nodiscard]] Time latency(Rank from, Rank to) const;
  /// What the processor at either end does for a message, and for its bytes.
  [[nodiscard]] Time message_work(Rank from, Rank to) const noexcept { return way(from, to).message_work; }
  [[nodiscard]] Time byte_work(Rank from, Rank to, std::size_t bytes) const noexcept {
    return for_bytes(static_cast<double>(bytes), way(from, to).core_picoseconds_per_byte);
  }
  [[nodiscard]] Rank hosts() const noexcept { return hosts_; }
  [[nodiscard]] Rank host_of(Rank rank) const noexcept { return places_[rank].host; }
  /// From one rank of a host to another.
  [[nodiscard]] Time latency_inside() const noexcept { return inside_.latency; }
  /// Everything that carried bytes.
  [[nodiscard]] std::vector<Use> uses() const;

 private:
  struct Carrier {
    Time free_at = 0;
    Time busy = 0;
    std::uint64_t bytes = 0;
    double picoseconds_per_byte = 0;
    Time gap = 0;

    [[nodiscard]] Time holds(std::size_t size, double slowness) const noexcept;
    /// Takes a message over, from `at` on; says when it is through.
    Time carry(std::size_t size, double slowness, Time at) noexcept;
  };
  struct Place {
    Rank host = 0;
    Rank lies_below = 0;  ///< this switch
    std::uint32_t nic = 0;
  };
  /// What messages cost on a host, or from one to another.
  struct Way {
    explicit Way(const LinkModel& speed) noexcept;

    Time latency;
    Time message_work;
    double core_picoseconds_per_byte;
    std::size_t header_bytes;
  };
  struct Degraded {
    double bandwidth_factor = 1;
    double latency_factor = 1;
  };

  [[nodiscard]] const Way& way(Rank from, Rank to) const noexcept {
    return places_[from].host == places_[to].host ? inside_ : network_;
  }
  [[nodiscard]] Carrier& way_out(Rank from, Rank to) noexcept;
  [[nodiscard]] Carrier& way_in(Rank from, Rank to) noexcept;
  [[nodiscard]] const Degraded* degraded(Rank from, Rank to) const;
  [[nodiscard]] double slowness(Rank from, Rank to) const;

  Rank hosts_ = 0;
  const Way inside_;
  const Way network_;
  const Time switch_latency_;
  std::vector<Place> places_;     ///< of each rank
  std::vector<Rank> nic_hosts_;   ///< of each NIC, ascending
  std::vector<Carrier> ports_;    ///< of rank r: 2r out, 2r + 1 in
  std::vector<Carrier> nics_;     ///< of NIC i: 2i out, 2i + 1 in
  std::vector<Carrier> uplinks_;  ///< of switch s: 2s up, 2s + 1 down
  std::unordered_map<std::uint64_t, Degraded> degraded_;
};

}  // namespace cohort::sim
