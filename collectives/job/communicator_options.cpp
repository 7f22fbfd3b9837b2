// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/communicator_options.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/figure_cache.h>
#include <cohort/engine/system/variables.h>

#include <fmt/format.h>

namespace cohort {
namespace {

constexpr unsigned kMostCopyThreads = 64;
constexpr unsigned kMostHostsPerSwitch = 1U << 16;

Determinism determinism_from_environment() {
  const std::optional<std::string> text = environment::text("COHORT_DETERMINISM");
  if (!text) return Determinism::D0;
  if (const std::optional<Determinism> level = parse_determinism(*text)) return *level;
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("COHORT_DETERMINISM='{}' is none of D0, D1, D2, D3", *text));
}

std::optional<unsigned> connections_from_environment() {
  const std::optional<std::string> text = environment::text("COHORT_TCP_CONNECTIONS");
  if (!text) return std::nullopt;
  if (*text == "auto") return kMeasuredConnections;
  return static_cast<unsigned>(environment::parse_number("COHORT_TCP_CONNECTIONS, if it is not auto,", *text,
                                                         1, kMostConnectionsOfLane));
}

}  // namespace

CommunicatorOptions CommunicatorOptions::from_environment() {
  JoinOptions join = JoinOptions::from_environment();
  CommunicatorOptions options = collectives_from_environment();
  options.join = std::move(join);
  environment::warn_of_misspelt_variables(options.join.rank);
  return options;
}

CommunicatorOptions CommunicatorOptions::from_root_info(std::span<const std::byte> info, Rank rank,
                                                        Rank size) {
  CommunicatorOptions options = collectives_from_environment();
  options.join = JoinOptions::from_root_info(info, rank, size);
  environment::warn_of_misspelt_variables(rank);
  return options;
}

CommunicatorOptions CommunicatorOptions::collectives_from_environment() {
  CommunicatorOptions options;
  options.transport = environment::text("COHORT_TRANSPORT").value_or("");
  options.algorithm = environment::text("COHORT_ALGO").value_or("");
  options.determinism = determinism_from_environment();
  options.buffer_bytes = environment::bytes("COHORT_BUFFSIZE").value_or(0);
  options.group_buffer_bytes = environment::bytes("COHORT_GROUP_BUFFSIZE").value_or(0);
  options.heap_bytes = environment::bytes("COHORT_HEAPSIZE").value_or(0);
  if (environment::number("COHORT_CMA", 0, 1) == 0U) options.pull_from_bytes = kNeverPull;
  options.uses_huge_pages = environment::number("COHORT_HUGEPAGES", 0, 1).value_or(1) != 0;
  options.hosts_per_switch =
      static_cast<Rank>(environment::number("COHORT_HOSTS_PER_SWITCH", 0, kMostHostsPerSwitch).value_or(0));
  options.host_bandwidth = static_cast<std::uint32_t>(
      environment::number("COHORT_HOST_BANDWIDTH", 0, kMostHostBandwidth).value_or(0));
  options.tcp_connections = connections_from_environment();
  if (const auto threads = environment::number("COHORT_COPY_THREADS", 0, kMostCopyThreads))
    options.copy_threads = static_cast<unsigned>(*threads);
  (void)FigureCache::from_environment();  // tells what is wrong before ranks join
  options.timeout = environment::duration("COHORT_TIMEOUT").value_or(Duration::zero());
  options.warn_after = environment::duration("COHORT_WARN_AFTER");
  return options;
}

CommunicatorOptions CommunicatorOptions::for_rank(Rank rank, Rank size) const {
  CommunicatorOptions other = *this;
  other.join.rank = rank;
  other.join.size = size;
  return other;
}

}  // namespace cohort
