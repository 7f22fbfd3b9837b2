// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/communicator_options.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/figure_cache.h>
#include <cohort/engine/system/variables.h>
#include <cohort/net/join/join_environment.h>

#include <fmt/format.h>

#include <utility>

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
  return static_cast<unsigned>(environment::parse_number("COHORT_TCP_CONNECTIONS (or auto)", *text,
                                                         1, kMostConnectionsOfLane));
}

std::optional<unsigned> number_up_to(const char* variable, unsigned most) {
  const std::optional<std::uint64_t> number = environment::number(variable, 0, most);
  return number ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
}

}  // namespace

CommunicatorOptions CommunicatorOptions::from_environment() {
  JoinOptions join = JoinOptions::from_environment(WrongVariable::kept);
  CommunicatorOptions options = collectives_from_environment(WrongVariable::kept);
  options.set_join(std::move(join));
  environment::warn_of_misspelt_variables(options.join.rank);
  return options;
}

CommunicatorOptions CommunicatorOptions::from_root_info(std::span<const std::byte> info, Rank rank,
                                                        Rank size) {
  CommunicatorOptions options = collectives_from_environment(WrongVariable::kept);
  options.set_join(JoinOptions::from_root_info(info, rank, size, WrongVariable::kept));
  environment::warn_of_misspelt_variables(rank);
  return options;
}

CommunicatorOptions CommunicatorOptions::collectives_from_environment(WrongVariable wrong) {
  CommunicatorOptions options;
  options.transport = environment::text("COHORT_TRANSPORT").value_or("");
  options.algorithm = environment::text("COHORT_ALGO").value_or("");
  const auto read = [&](const auto& function) { keep_fault(options.join.fault, function); };
  read([&] { options.determinism = determinism_from_environment(); });
  read([&] { options.buffer_bytes = environment::bytes("COHORT_BUFFSIZE").value_or(0); });
  read([&] { options.group_buffer_bytes = environment::bytes("COHORT_GROUP_BUFFSIZE").value_or(0); });
  read([&] { options.heap_bytes = environment::bytes("COHORT_HEAPSIZE").value_or(0); });
  read([&] { options.pull_from_bytes = number_up_to("COHORT_CMA", 1).value_or(1) == 0 ? kNeverPull : 0; });
  read([&] { options.uses_huge_pages = number_up_to("COHORT_HUGEPAGES", 1).value_or(1) != 0; });
  read([&] {
    options.hosts_per_switch = number_up_to("COHORT_HOSTS_PER_SWITCH", kMostHostsPerSwitch).value_or(0);
  });
  read([&] {
    options.host_bandwidth = number_up_to("COHORT_HOST_BANDWIDTH", kMostHostBandwidth).value_or(0);
  });
  read([&] { options.tcp_connections = connections_from_environment(); });
  read([&] { options.copy_threads = number_up_to("COHORT_COPY_THREADS", kMostCopyThreads); });
  read([&] { (void)FigureCache::from_environment(); });
  read([&] { options.timeout = environment::duration("COHORT_TIMEOUT").value_or(Duration::zero()); });
  read([&] { options.warn_after = environment::duration("COHORT_WARN_AFTER"); });
  if (wrong == WrongVariable::thrown && options.join.fault) throw Error(*options.join.fault);
  return options;
}

void CommunicatorOptions::set_join(JoinOptions options) {
  if (!options.fault) options.fault = std::move(join.fault);
  join = std::move(options);
}

CommunicatorOptions CommunicatorOptions::for_rank(Rank rank, Rank size) const {
  CommunicatorOptions other = *this;
  other.join.rank = rank;
  other.join.size = size;
  return other;
}

}  // namespace cohort
