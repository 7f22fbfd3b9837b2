// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/simulate.h>
#include <cohort/collectives/machines/sim/topology.h>

#include <string_view>

namespace cohort::sim {

/// The transport that the library chooses for two ranks, of one host or of two: its own list is asked.
[[nodiscard]] std::string_view transport_between(bool are_on_one_host);

/// What a message of the library's TCP costs: the work of its cores as far as nobody has measured it
/// (LinkSpeed), and its frame's header. `wire` has the latency and bandwidth of the network below.
[[nodiscard]] LinkModel over_tcp(const LinkModel& wire);

/// The topology that a simulation begins with: between hosts what the library does there, and inside of one
/// without shared memory messages in pieces as it cuts them.
[[nodiscard]] Topology library_topology();

/// What the library would choose on these links, by its own estimate of them. Null where all ranks share one
/// memory: it measures there before it chooses.
[[nodiscard]] const AnyAlgorithm* choice_of_library(Operator op, const Topology& topology,
                                                    const Setup& setup);

}  // namespace cohort::sim
