// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/dependencies.h>

#include <vector>

namespace cohort::graph {

/// What ranks have to reduce for one parameter.
struct Gradient {
  TensorId parameter{};
  /// One tensor; several where a shared parameter has gradients that nothing adds up.
  std::vector<TensorId> parts;
};

/// The gradients of a graph, one for each parameter, in the order in which they are made.
///
/// By marks: the tensors whose `gradient_of` is the parameter; of those that are parts of another one, only
/// that. Without marks by def-use: what an update reads of the parameter's shape that backward has made from
/// the loss. A gradient that leads to no update is left out, where there are updates.
/// Throws GraphError (all_reduce_insert) where several tensors could be the gradient, or there is none at
/// all.
[[nodiscard]] std::vector<Gradient> find_gradients(const Graph& graph, const Dependencies& dependencies);

/// When the data of each node is there, if nodes run one after another in the graph's order and collectives
/// take no time: by node.
[[nodiscard]] std::vector<double> end_times_us(const Graph& graph);

}  // namespace cohort::graph
