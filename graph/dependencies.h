// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace cohort::graph {

inline constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

/// Who makes and who reads what, of a graph as it was when this was made: what changes it makes this stale.
///
/// Costs one walk over all nodes. Throws GraphError (dist_graph_build) where a tensor has two producers.
class Dependencies {
 public:
  explicit Dependencies(const Graph& graph);

  /// Nothing: an input, a parameter, or state.
  [[nodiscard]] std::optional<NodeId> producer(TensorId tensor) const { return producers_[index_of(tensor)]; }
  [[nodiscard]] std::span<const NodeId> consumers(TensorId tensor) const {
    return consumers_[index_of(tensor)];
  }
  /// Of a node in the graph's order; kNowhere for one that was removed.
  [[nodiscard]] std::size_t position(NodeId node) const { return positions_[index_of(node)]; }
  /// That have to be over before it, without doubles.
  [[nodiscard]] std::span<const NodeId> predecessors(NodeId node) const {
    return predecessors_[index_of(node)];
  }
  [[nodiscard]] std::span<const NodeId> successors(NodeId node) const { return successors_[index_of(node)]; }
  /// By node: whether it is one of these, or needs the result of one, directly or not.
  [[nodiscard]] std::vector<bool> reached_from(std::span<const NodeId> nodes) const;
  /// By node: whether one of these is it, or needs its result.
  [[nodiscard]] std::vector<bool> leading_to(std::span<const NodeId> nodes) const;

 private:
  std::vector<std::optional<NodeId>> producers_;
  std::vector<std::vector<NodeId>> consumers_;
  std::vector<std::size_t> positions_;
  std::vector<std::vector<NodeId>> predecessors_;
  std::vector<std::vector<NodeId>> successors_;
};

/// The nodes in an order in which each stands behind what it needs, as near to the graph's own as can be: of
/// those that could come next, the first one. Throws GraphError (dist_graph_build) that names a cycle.
[[nodiscard]] std::vector<NodeId> topological_order(const Graph& graph, const Dependencies& dependencies);

/// The same graph in that order.
[[nodiscard]] Graph sorted(Graph graph);

}  // namespace cohort::graph
