// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

namespace cohort::graph {

/// Holds a graph against what it has to be: references that exist, one producer for each tensor and none for
/// inputs, parameters and state, no tensor that is read and never made, no cycle, an order in which each node
/// stands behind what it needs, shapes as the ops make them, gradients as large as their parameters.
/// Throws GraphError (dist_graph_build) that names the node or tensor, what is wrong, and what to do.
void verify(const Graph& graph);

}  // namespace cohort::graph
