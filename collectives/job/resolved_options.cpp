// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/resolved_options.h>

#include <cohort/net/transport_list.h>

#include <fmt/format.h>

namespace cohort {
namespace {

/// Beside the two buffers of a communicator, all groups together may have those of so many.
constexpr std::size_t kGroupsOfFullSize = 16;
constexpr std::size_t kDefaultHeapBytes = std::size_t{4} << 30;
constexpr Duration kDefaultTimeout = std::chrono::minutes(10);
constexpr Duration kDefaultWarnAfter = std::chrono::seconds(30);

}  // namespace

std::size_t buffer_bytes_of(const CommunicatorOptions& options) {
  const std::size_t bytes = options.buffer_bytes != 0 ? options.buffer_bytes : kDefaultBufferBytes;
  // Ranks of several hosts need no more: nobody knows yet how many there are on each.
  const std::size_t least = std::min(least_buffer_bytes(options.join.size), kDefaultBufferBytes);
  if (bytes < least)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("a CCL buffer of {} bytes is too small for {} ranks; COHORT_BUFFSIZE must be "
                            "at least {} ({}K)",
                            bytes, options.join.size, least, least >> 10));
  return bytes;
}

std::size_t group_buffer_bytes_of(const CommunicatorOptions& options) {
  if (options.group_buffer_bytes != 0) return options.group_buffer_bytes;
  return kGroupsOfFullSize * 2 * buffer_bytes_of(options);
}

PeerTransports::Choice transports_of(const CommunicatorOptions& options) {
  return {.kinds = options.transports.empty() ? transports() : options.transports,
          .asked = options.transport,
          .buffer_bytes = buffer_bytes_of(options),
          .heap_bytes = options.heap_bytes != 0 ? options.heap_bytes : kDefaultHeapBytes,
          .is_isolated = options.is_isolated,
          .hosts_per_switch = options.hosts_per_switch,
          .host_bandwidth = options.host_bandwidth,
          .tcp_connections = options.tcp_connections.value_or(1)};
}

AlgorithmTable table_of(const CommunicatorOptions& options) {
  AlgorithmTable table;
  for (const AnyAlgorithm& algorithm : options.algorithms) table.add(algorithm);
  return table;
}

Duration timeout_of(const CommunicatorOptions& options) {
  return options.timeout > Duration::zero() ? options.timeout : kDefaultTimeout;
}

Duration long_call_of(const CommunicatorOptions& options) {
  const Duration asked = options.warn_after.value_or(kDefaultWarnAfter);
  return asked > Duration::zero() ? asked : Duration::max();
}

}  // namespace cohort
