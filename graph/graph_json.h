// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <string>

namespace cohort::graph {

/// Reads a graph, sorts it and verifies it. docs/use/graph.md has the members.
/// Throws GraphError (dist_graph_build) with `name`, the node or tensor, and the member at fault; unknown
/// members are refused, with the nearest known one.
[[nodiscard]] Graph parse_graph(const std::string& text, const std::string& name);
[[nodiscard]] Graph read_graph(const std::string& path);

/// What parse_graph() reads, node by node a line.
[[nodiscard]] std::string to_json(const Graph& graph);

}  // namespace cohort::graph
