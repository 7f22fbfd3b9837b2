// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/sim/library_links.h>

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/collectives/selection/link_speed.h>
#include <cohort/collectives/selection/selection.h>
#include <cohort/net/membership.h>
#include <cohort/net/transport_list.h>

#include <algorithm>

namespace cohort::sim {
namespace {

constexpr double kNanosecondsPerMicrosecond = 1e3;

/// With which the library chooses among algorithms over links.
CostModel cost_model(const Topology& topology, Rank ranks) {
  const bool is_one_host = has_one_host(topology, ranks);
  const LinkModel& link = is_one_host ? topology.inside : topology.network;
  const double bytes_per_us =
      kNanosecondsPerMicrosecond *
      (link.core_gigabytes_per_second > 0 ? link.core_gigabytes_per_second : link.gigabytes_per_second);
  const double combined_per_us = kNanosecondsPerMicrosecond * topology.reduce_gigabytes_per_second / 2;
  LinkSpeed cores;
  cores.message_us = 2 * link.message_ns / kNanosecondsPerMicrosecond;
  cores.byte_us = 2 / bytes_per_us;
  cores.combine_us = combined_per_us > 0 ? 1 / combined_per_us : 0;
  const double copied_per_us = kNanosecondsPerMicrosecond * topology.copy_gigabytes_per_second;
  cores.copy_us = copied_per_us > 0 ? 1 / copied_per_us : 0;
  if (topology.cores_per_host != 0)
    cores.ranks_per_core =
        std::max(1.0, static_cast<double>(most_ranks_of_a_host(topology, ranks)) / topology.cores_per_host);
  if (topology.cache_bytes != 0) cores.cache_bytes = topology.cache_bytes;
  InsideSpeed inside = InsideSpeed::beside(cores);
  inside.message_us = 2 * topology.inside.message_ns / kNanosecondsPerMicrosecond;
  inside.latency_us = topology.inside.latency_ns / kNanosecondsPerMicrosecond;
  inside.byte_us = 1 / (topology.inside.gigabytes_per_second * kNanosecondsPerMicrosecond);
  const Hosts hosts = hosts_of(topology, ranks);
  NetworkSpeed network{.latency_us = link.latency_ns / kNanosecondsPerMicrosecond};
  network.is_tcp = link.core_gigabytes_per_second > 0;
  if (!is_one_host) {
    network.byte_us = 1 / (link.gigabytes_per_second * kNanosecondsPerMicrosecond);
    network.ports = topology.rails == 0 ? static_cast<double>(ranks)
                                        : static_cast<double>(hosts.count()) * topology.rails;
  }
  return {cores, inside, ranks, network};
}

}  // namespace

std::string_view transport_between(bool are_on_one_host) {
  Membership two;
  two.size = 2;
  two.peers.resize(2);
  if (!are_on_one_host) two.peers[1].host_id.front() = std::byte{1};
  const auto kinds = transports();
  const auto first =
      std::ranges::find_if(kinds, [&](const TransportKind& kind) { return kind.reaches(two, 1); });
  return first == kinds.end() ? "none" : first->name;
}

LinkModel over_tcp(const LinkModel& wire) {
  const LinkSpeed cores;  // for both ends of a message together
  LinkModel speed = wire;
  speed.message_ns = cores.message_us * kNanosecondsPerMicrosecond / 2;
  speed.core_gigabytes_per_second = 2 / (cores.byte_us * kNanosecondsPerMicrosecond);
  speed.header_bytes = stream_header_bytes();
  return speed;
}

Topology library_topology() {
  Topology topology;
  topology.network = over_tcp(topology.network);
  topology.cache_bytes = LinkSpeed().cache_bytes;
  return topology;
}

const AnyAlgorithm* choice_of_library(Operator op, const Topology& topology, const Setup& setup) {
  constexpr DataType kType = DataType::float32;
  if (has_one_memory(topology, setup.ranks)) return nullptr;
  const std::size_t least = op->has_data ? op.elements_per_count(setup.ranks) * size_bytes(kType) : 1;
  const Call call = make_call_of_size(op, kType, setup.bytes / least * least, setup.ranks);
  const Reach reach{.hosts = hosts_of(topology, setup.ranks),
                    .buffer_bytes = setup.buffer_bytes,
                    .model = cost_model(topology, setup.ranks)};
  return choose_algorithm(call, reach, AlgorithmTable::library(), {}).algorithm;
}

}  // namespace cohort::sim
