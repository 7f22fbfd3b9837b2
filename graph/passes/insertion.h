// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/reduce_op.h>
#include <cohort/graph/dependencies.h>
#include <cohort/graph/passes/gradients.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace cohort::graph {

/// How a bucket is reduced.
enum class ReduceForm : std::uint8_t {
  flat,    ///< one all_reduce of all ranks
  shares,  ///< reduce_scatter inside of a host, all_reduce of shares between hosts, all_gather inside
  leader,  ///< reduce to a rank of each host, all_reduce between these, broadcast inside
};

[[nodiscard]] std::string_view to_string(ReduceForm form) noexcept;

/// What a collective is made with.
struct CollectiveSpec {
  std::string name;  ///< wanted
  ReduceForm form = ReduceForm::flat;
  ReduceOp reduction = ReduceOp::avg;
  std::int64_t bucket = 0;
  std::int64_t priority = 0;  ///< of its first use in the next forward: the lower, the earlier
};

// The steps of insert_all_reduce(), each by itself.

/// Behind the last of the nodes that make these tensors: the earliest place of the order where they can be
/// reduced. 0 where nothing makes them.
[[nodiscard]] std::size_t earliest_insertion_point(const Dependencies& dependencies,
                                                   std::span<const TensorId> tensors);

/// The nodes that reduce these tensors, one for the form flat and three for the others, in order. Adds their
/// results to the graph, as NAME.reduced, but not the nodes. Attributes: `bucket`, `bytes`, `group` ("world",
/// "host" or "across_hosts"), `reduction`, `priority`, `form`. They have no duration.
[[nodiscard]] std::vector<Node> create_all_reduce(Graph& graph, std::span<const TensorId> tensors,
                                                  const CollectiveSpec& spec);

/// Puts these nodes there, one behind the other, and lets whoever reads the inputs of the first outside of
/// backward read the outputs of the last instead. `dependencies` are those from before the first insertion,
/// of a graph in which whatever stands at or behind `position` is as it was then: insert from the end. Throws
/// GraphError (all_reduce_insert) where one of these readers stands before that place.
std::vector<NodeId> insert_collectives(Graph& graph, const Dependencies& dependencies,
                                       std::vector<Node> nodes, std::size_t position);

/// The same graph with updates behind everything else, in their order, but for those that others need: one
/// that stands amid backward would keep it waiting for its gradient to be reduced.
[[nodiscard]] Graph with_updates_last(Graph graph);

/// The same with updates in the order in which what they need is reduced: `place` of a gradient's tensor, so
/// that the first ones hide the last reductions. Of graphs as with_updates_last() gives them.
[[nodiscard]] Graph with_updates_as_reduced(Graph graph, const std::map<TensorId, std::size_t>& place);

/// Adds up the parts of gradients that nothing adds, behind the last part; each has one part then.
void add_up_parts(Graph& graph, std::vector<Gradient>& gradients);

/// Cuts a tensor into pieces of so many bytes, for buckets of their own: a node `split` behind its producer,
/// which takes no time, and leaves NAME[0], NAME[1], ... Their sum of bytes is the tensor's. The results are
/// put together by join_pieces().
std::vector<TensorId> split_gradient(Graph& graph, TensorId gradient, std::span<const std::uint64_t> bytes);

/// A node `join` behind whatever makes the results, whose output the readers of the gradient outside of
/// backward read instead of it.
void join_pieces(Graph& graph, TensorId gradient, std::span<const TensorId> results);

}  // namespace cohort::graph
