// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/ports.h>
#include <cohort/engine/io/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// MASTER_PORT: where rank 0 of a program that was written for torchrun listens.
///
/// Rank 0 binds it some time after the job has begun, with SO_REUSEADDR or without, so that no socket can
/// keep it until then. Others stay away because the system gives nobody a port of this range by itself
/// (net.ipv4.ip_local_port_range), as far as it has others; because launchers tell each other what they have
/// taken, by an abstract Unix address as long as the job lives; and ranks of cohort leave out what
/// MASTER_PORT names. Nobody is bound to it when it is chosen.
class MasterPort {
 public:
  /// One of 20000 to 29399, or of the range. Nothing: all are taken.
  [[nodiscard]] static std::optional<MasterPort> choose(const std::optional<PortRange>& range = std::nullopt);

  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }

 private:
  MasterPort(Descriptor claim, std::uint16_t number) : claim_(std::move(claim)), number_(number) {}

  Descriptor claim_;
  std::uint16_t number_;
};

/// Where such a rank 0 is reached.
struct MasterPlace {
  std::string host;  ///< as MASTER_ADDR has it: without brackets
  std::uint16_t port = 0;
};

/// The host of "HOST:PORT" or "[V6]:PORT"; empty for a Unix address.
[[nodiscard]] std::string host_of(std::string_view address);

}  // namespace cohort
