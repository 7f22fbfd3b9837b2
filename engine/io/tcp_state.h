// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/host_watch.h>

#include <optional>

namespace cohort {

/// Of a socket; none if it is no TCP connection, or that is over.
[[nodiscard]] std::optional<TcpState> read_tcp_state(int socket) noexcept;

/// The longest time that TCP waits before it sends again, or asks again for room, where the kernel lets it be
/// set (Linux 6.15): else it doubles up to two minutes, and a host that comes back is heard of late.
void limit_retransmission(int socket, Duration longest) noexcept;

}  // namespace cohort
