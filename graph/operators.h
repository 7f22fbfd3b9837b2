// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <string_view>

namespace cohort::graph {

/// What is known of what a node does, by its op: whether it goes element by element, as fusion asks.
[[nodiscard]] bool is_elementwise(std::string_view op) noexcept;

/// The collectives that a graph may have: all_reduce, reduce_scatter, all_gather, reduce, broadcast.
[[nodiscard]] bool is_collective(std::string_view op) noexcept;

/// Compares the shapes and types of a node's tensors with what its op makes of them: of elementwise ops,
/// matmul, transpose, reshape and collectives. Of others nothing is known.
/// Throws GraphError (dist_graph_build) that names the node and both values.
void check_shapes(const Graph& graph, const Node& node);

}  // namespace cohort::graph
