// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/cost.h>
#include <cohort/graph/timeline/timeline.h>

#include <functional>

namespace cohort::graph {

/// What a collective of the graph takes, from its attributes (`op`, `group`, `bytes`). Null: nothing is
/// known, which is an error where the graph has such a collective.
using CollectiveCosts = std::function<const Cost*(const Node&)>;

/// When everything runs, if compute nodes go one after another in the graph's order, and so do collectives,
/// and each waits for what it needs: as the Executor does. Throws GraphError (dist_graph_build) for a
/// collective without a cost.
[[nodiscard]] Timeline predict_step(const Graph& graph, const CollectiveCosts& costs);
/// The same cost for all.
[[nodiscard]] Timeline predict_step(const Graph& graph, const Cost& cost);

}  // namespace cohort::graph
