// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cohort::graph {

/// A graph that needs less memory, and what that costs.
struct SavedMemory {
  Graph graph;
  std::uint64_t peak_bytes = 0;
  double added_us = 0;                 ///< of compute, or of copies
  std::vector<std::string> decisions;  ///< a line for each tensor that is recomputed or offloaded
};

/// Computes activations again in backward instead of keeping them, one by one, until the peak is within the
/// budget or nothing more helps: of those that are kept over the peak, the one that saves most bytes for each
/// microsecond. What a node reads has to be there when it runs again: parameters, inputs, and what is kept
/// till then. Nodes whose attribute `has_effects` is true run once.
[[nodiscard]] SavedMemory checkpoint_activations(const Graph& graph, std::uint64_t budget_bytes);

/// Copies activations out of the planned memory behind their last use in forward, and back before their first
/// in backward, the largest first; a copy takes bytes / bytes_per_s.
[[nodiscard]] SavedMemory offload_activations(const Graph& graph, std::uint64_t budget_bytes,
                                              double bytes_per_s);

}  // namespace cohort::graph
