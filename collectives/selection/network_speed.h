// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/selection/link_speed.h>
#include <cohort/net/membership.h>

#include <algorithm>

namespace cohort {

/// What messages within a host cost, over shared memory, as far as is known without measuring it.
struct InsideSpeed {
  double message_us = 0.2;       ///< of the cores at both ends
  double latency_us = 0.3;       ///< from one to the other
  double byte_us = 1.0 / 10000;  ///< of the one copy that moves it
  bool is_measured = false;

  /// Beside links of that speed: who shares a core has to be given it first.
  [[nodiscard]] static InsideSpeed beside(const LinkSpeed& speed) noexcept {
    InsideSpeed inside;
    if (speed.ranks_per_core > 1) inside = {speed.message_us, 0, inside.byte_us, false};
    inside.byte_us = std::min(inside.byte_us, speed.byte_us);
    return inside;
  }
};

/// What the network between hosts adds to the work at both ends, as far as is known without measuring it: of
/// TCP within a data centre.
struct NetworkSpeed {
  /// Of a message: one way, or, where CostModel::is_network_work(), of a core.
  double latency_us = 10;
  double byte_us = 0;  ///< of a byte, to or from a host; 0: no more than the work at its ends takes
  double ports = 1;    ///< through which bytes leave, of all hosts together
  bool is_tcp = true;  ///< whose streams share a port by losing packets
  bool is_measured = false;
  bool is_in_one_machine = false;  ///< hosts are containers, to which one kernel passes messages on

  /// What these ranks need, on the hosts that they run on, whatever transport they use.
  [[nodiscard]] static NetworkSpeed between(const Membership& membership);
  /// Of ranks that need none.
  [[nodiscard]] static NetworkSpeed none() noexcept { return {.latency_us = 0}; }
  /// Whether ranks are on several hosts, none of which has the caches of another.
  [[nodiscard]] bool is_between_hosts() const noexcept { return ports > 1; }
  /// The same ports, where there are any, by figures of others: unless these are of a network that leaves the
  /// machine, and this one does not.
  [[nodiscard]] NetworkSpeed by(const NetworkSpeed& measured) const noexcept {
    if (!is_between_hosts() || is_in_one_machine != measured.is_in_one_machine) return *this;
    NetworkSpeed speed = measured;
    speed.ports = ports;
    speed.is_tcp = is_tcp;
    return speed;
  }
};

}  // namespace cohort
