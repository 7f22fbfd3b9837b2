// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/time.h>
#include <cohort/collectives/machines/sim/topology.h>

#include <vector>

namespace cohort::sim {

/// What the ranks' own work takes: a rank does one thing after another, on a core of its own or on one of
/// those that the ranks of its host share.
///
/// Work is done in the order in which it is asked for, and nobody is interrupted: a rank keeps its core until
/// it waits, as where waiting is what gives a core away.
class Processors {
 public:
  Processors(const Topology& topology, Rank ranks);

  /// The rank works for so long, from `at` on or as soon as it can. Says when it is done.
  Time work(Rank rank, Time at, Time length);
  /// When it has done all that it was given.
  [[nodiscard]] Time free_at(Rank rank) const noexcept { return states_[rank].free_at; }

 private:
  struct State {
    Time free_at = 0;
    double slowness = 1;
    std::uint32_t first_core = 0;  ///< of its host
    std::uint32_t cores = 0;       ///< that it shares; 0: it has one of its own
  };
  struct Core {
    Time free_at = 0;
    Rank last = kNobody;
  };
  static constexpr Rank kNobody = ~Rank{0};

  Time on_shared_core(Rank rank, Time at, Time length);

  const Time switch_;
  std::vector<State> states_;
  std::vector<Core> cores_;  ///< of hosts that have fewer of them than ranks
};

}  // namespace cohort::sim
