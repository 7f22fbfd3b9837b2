// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/topology.h>
#include <cohort/graph/graph.h>
#include <cohort/graph/passes/insertion.h>
#include <cohort/graph/planner/cost.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// What the collectives of a graph take on machines that are simulated: of each op and group as the library
/// would run it there, some sizes on a virtual clock, straight lines between and beyond: large ones of many
/// ranks take too long to simulate. A collective that is queued behind another one takes as long as one from
/// idle: the simulator runs one at a time.
class SimulatedCosts {
 public:
  /// `most_bytes`: of a bucket.
  SimulatedCosts(const sim::Topology& topology, Rank ranks, std::uint64_t most_bytes);

  [[nodiscard]] Rank hosts() const noexcept { return hosts_; }
  /// Throws Error (Unsupported) where groups of hosts are asked for and hosts have different numbers of
  /// ranks.
  [[nodiscard]] const graph::Cost& of(const std::string& op, const std::string& group);
  [[nodiscard]] const graph::Cost& of(const graph::Node& collective);
  /// Of reducing a bucket in that form: its collectives one after another.
  [[nodiscard]] graph::Cost of(graph::ReduceForm form);
  /// A line for each collective: which algorithm ran it at the largest size that was simulated.
  [[nodiscard]] const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  /// The ranks of a group, where they are, and which part of a bucket each group has.
  struct Place {
    sim::Topology topology;
    Rank ranks = 1;
    std::uint64_t parts = 1;
  };
  [[nodiscard]] Place place_of(const std::string& group) const;
  [[nodiscard]] graph::Cost simulate(const std::string& op, const std::string& group);

  sim::Topology topology_;
  Rank ranks_;
  Rank hosts_;
  std::uint64_t most_bytes_;
  std::map<std::pair<std::string, std::string>, graph::Cost> costs_;
  std::vector<std::string> notes_;
};

}  // namespace cohort
