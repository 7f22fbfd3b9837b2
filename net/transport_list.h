// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/transport.h>

#include <cstddef>
#include <span>

namespace cohort {

/// All kinds of transports of the library: each pair of ranks uses the first that reaches.
[[nodiscard]] std::span<const TransportKind> transports() noexcept;

/// What a message of a socket has before its payload.
[[nodiscard]] std::size_t stream_header_bytes() noexcept;

/// "shm, tcp", for errors.
[[nodiscard]] std::string names_of(std::span<const TransportKind> kinds);

}  // namespace cohort
