// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/processors.h>

#include <algorithm>
#include <span>

namespace cohort::sim {

Processors::Processors(const Topology& topology, Rank ranks)
    : switch_(from_nanoseconds(topology.core_switch_ns)), states_(ranks) {
  const std::vector<Rank> bounds = host_bounds(topology, ranks);
  for (std::size_t host = 0; host + 1 < bounds.size() && topology.cores_per_host != 0; ++host) {
    if (topology.cores_per_host >= bounds[host + 1] - bounds[host]) continue;
    for (Rank rank = bounds[host]; rank < bounds[host + 1]; ++rank) {
      states_[rank].first_core = static_cast<std::uint32_t>(cores_.size());
      states_[rank].cores = topology.cores_per_host;
    }
    cores_.resize(cores_.size() + topology.cores_per_host);
  }
  for (const SlowRank& slow : topology.faults.slow_ranks) states_[slow.rank].slowness = slow.factor;
}

Time Processors::work(Rank rank, Time at, Time length) {
  State& state = states_[rank];
  const Time begin = std::max(at, state.free_at);
  if (length == 0 && state.cores == 0) return begin;
  if (state.slowness != 1) length = for_bytes(static_cast<double>(length), state.slowness);
  state.free_at = state.cores == 0 ? begin + length : on_shared_core(rank, begin, length);
  return state.free_at;
}

/// The core that can begin first; of equals, the one that this rank had last.
Time Processors::on_shared_core(Rank rank, Time at, Time length) {
  const std::span<Core> cores = std::span(cores_).subspan(states_[rank].first_core, states_[rank].cores);
  const auto begin = [&](const Core& core) {
    return std::max(at, core.free_at) + (core.last == rank ? 0 : switch_);
  };
  Core* best = &cores.front();
  for (Core& core : cores)
    if (begin(core) < begin(*best) || (begin(core) == begin(*best) && core.last == rank)) best = &core;
  best->free_at = begin(*best) + length;
  best->last = rank;
  return best->free_at;
}

}  // namespace cohort::sim
