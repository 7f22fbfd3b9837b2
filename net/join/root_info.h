// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/net/auth/secret.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>

namespace cohort {

/// What ranks need of rank 0 to meet it, as bytes: its address and the job's secret. Whoever has them can
/// join.
inline constexpr std::size_t kRootInfoBytes = 128;
using RootInfo = std::array<std::byte, kRootInfoBytes>;

/// How long a port is kept for a rank 0 that does not come: ranks may have much to do between getting the
/// bytes and joining.
inline constexpr Duration kRootPortKept = std::chrono::minutes(10);

/// A new one, made by the process that will be rank 0, which sends it to the others by what the program has
/// already: MPI, a file, a store. JoinOptions::from_root_info() takes it, there and here. The port stays this
/// process's until it makes another root_info() more than kRootPortKept later. The host's address is that
/// toward the default gateway, or as COHORT_SOCKET_IFNAME says, the port any, or of COHORT_PORT_RANGE.
///
/// Throws what those variables make it throw, ResourceLimit, SystemError. Threads: any.
[[nodiscard]] RootInfo root_info();

/// What is in it.
struct RootInfoParts {
  std::string address;
  Secret secret;
};

[[nodiscard]] RootInfo encode_root_info(const std::string& address, const Secret& secret);
/// Throws InvalidArgument for bytes that are none, or were changed on the way.
[[nodiscard]] RootInfoParts decode_root_info(std::span<const std::byte> bytes);

}  // namespace cohort
