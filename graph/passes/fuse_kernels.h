// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort::graph {

/// One operation of a fused node: its op and what it reads, kPrevious or an input of the fused node.
struct FusedStep {
  std::string op;
  std::vector<std::int64_t> operands;
};
inline constexpr std::int64_t kPrevious = -1;

/// Makes one node, `fused`, of elementwise nodes of one phase, type and shape that follow each other, where
/// each but the last has one reader: their results need not go to memory. Takes as long as they did together.
/// Attributes: `ops`, "relu;scale"; `operands`, for each op their number and each of them; `saved_bytes`,
/// that are neither written nor read. What is marked as gradient, and the loss, stay.
[[nodiscard]] Graph fuse_kernels(const Graph& graph);

/// The operations of a fused node. Throws GraphError (dist_graph_build) for attributes that make none.
[[nodiscard]] std::vector<FusedStep> steps_of(const Node& node);

}  // namespace cohort::graph
