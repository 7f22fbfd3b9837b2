// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/communicator_options.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/collectives/schedules/ccl_buffer.h>
#include <cohort/net/peer_transports.h>

#include <cstddef>

namespace cohort {

// What a communicator's options come to, with defaults where they say nothing.

/// Of each CCL buffer. Throws InvalidArgument if it is too small.
[[nodiscard]] std::size_t buffer_bytes_of(const CommunicatorOptions& options);
/// Of all CCL buffers of groups together.
[[nodiscard]] std::size_t group_buffer_bytes_of(const CommunicatorOptions& options);
/// Throws InvalidArgument as buffer_bytes_of() does.
[[nodiscard]] PeerTransports::Choice transports_of(const CommunicatorOptions& options);
/// Throws InvalidArgument for an algorithm that there is not.
[[nodiscard]] AlgorithmTable table_of(const CommunicatorOptions& options);
/// Of a collective.
[[nodiscard]] Duration timeout_of(const CommunicatorOptions& options);
/// From which time on a collective is long.
[[nodiscard]] Duration long_call_of(const CommunicatorOptions& options);

}  // namespace cohort
