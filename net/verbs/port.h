// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/net/verbs/library.h>

#include <cstdint>
#include <optional>
#include <string>

namespace cohort::verbs {

/// What the environment says of the device and of how it is used.
struct Settings {
  std::string device;  ///< COHORT_IB_HCA=NAME[:PORT]; empty: the first that can be used
  std::optional<std::uint8_t> port;
  std::optional<int> gid_index;    ///< COHORT_IB_GID_INDEX; else a routable RoCE v2 address, IPv4 first
  std::uint8_t traffic_class = 0;  ///< COHORT_IB_TC: of the IP header (RoCE v2), or of the GRH
  std::uint8_t service_level = 0;  ///< COHORT_IB_SL
  std::uint8_t timeout = 18;       ///< COHORT_IB_TIMEOUT: 4.096 us * 2^timeout until a packet is sent again
  std::uint8_t retry_count = 6;    ///< COHORT_IB_RETRY_CNT: so often; rdma_rxe takes 7 for "for ever"
  std::uint8_t pairs = 1;  ///< COHORT_IB_QPS_PER_CONNECTION: queue pairs, if the other end has as many

  /// How long a packet is sent again until its connection has failed.
  [[nodiscard]] Duration patience() const noexcept {
    return std::chrono::nanoseconds(std::int64_t{4096} << timeout) * (retry_count + 1);
  }
  /// Throws InvalidArgument.
  [[nodiscard]] static Settings from_environment();
};

/// A port of a device, and the address that is used there.
struct Port {
  std::string device;
  std::uint8_t number = 1;
  bool is_ethernet = false;
  ibv_gid_entry gid{};
  std::uint16_t lid = 0;  ///< InfiniBand
  ibv_mtu mtu = IBV_MTU_1024;

  /// PeerInfo::fabric: equal where two ports reach each other, as far as can be told.
  [[nodiscard]] std::uint64_t fabric() const noexcept;
  /// "rxe0 port 1, RoCE v2, GID 1 (10.0.0.1), MTU 4096".
  [[nodiscard]] std::string describe() const;
};

/// The port to use, or, for people, why there is none.
struct Choice {
  std::optional<Port> port;
  std::string why_not;

  /// For people: the port, with what is not the default in using it, or why there is none.
  [[nodiscard]] std::string describe(const Settings& settings) const;
};

/// Opens devices and closes them again; the chosen one has let a connection's memory and queues be made.
[[nodiscard]] Choice choose_port(const Library& library, const Settings& settings);

/// The same with what is installed on this host, once per process, with a line in the log. Threads: any.
/// Throws InvalidArgument for variables that make no sense.
[[nodiscard]] const Choice& port_of_this_host();

/// "10.0.0.1", or eight groups of hexadecimal digits.
[[nodiscard]] std::string to_string(const ibv_gid& gid);

}  // namespace cohort::verbs
