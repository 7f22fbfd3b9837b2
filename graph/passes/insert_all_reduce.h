// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/passes/insertion.h>
#include <cohort/graph/planner/planner.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::graph {

/// When gradients are reduced, and what travels together.
enum class Strategy : std::uint8_t {
  synchronous,                    ///< after backward
  compute_communication_overlap,  ///< as soon as a bucket within the limits is full
  hierarchical,   ///< the same, host by host first: ReduceForm::shares, or leader where that is asked for
  smart_overlap,  ///< as the planner finds best
};

[[nodiscard]] std::string_view to_string(Strategy strategy) noexcept;
[[nodiscard]] std::optional<Strategy> parse_strategy(std::string_view name) noexcept;

struct InsertOptions {
  Strategy strategy = Strategy::smart_overlap;
  Limits limits{};                     ///< bucket_size, min_tensor_size, max_group_size
  std::uint64_t split_bytes = 0;       ///< gradients of more bytes are cut; 0: none are
  ReduceForm form = ReduceForm::flat;  ///< hierarchical takes shares for flat
  ReduceOp reduction = ReduceOp::avg;
  Cost cost = Cost::of(LinearCost{});  ///< of reducing so many bytes, in this form
  /// Cuts the items instead of the strategy, such as one of the rules of others: to replay it.
  std::function<Plan(std::vector<Item>, const Cost&)> rule{};
  /// By the name of a gradient's tensor: when it is ready on the last rank, as measured. What is not there is
  /// taken from the durations of nodes.
  std::map<std::string, double> ready_us{};
};

/// A graph with collectives, and why they stand where they do.
struct Insertion {
  Graph graph;
  Plan plan;                           ///< of which items are gradients by name, and buckets the collectives
  std::vector<std::string> decisions;  ///< a line for each gradient and bucket
};

/// Inserts a reduction for each gradient: finds gradients, analyses dependencies, takes the earliest
/// insertion point of each bucket, creates its collectives and inserts them. A shared parameter's gradient is
/// reduced once, one that nobody uses not at all. Collectives follow each other in the plan's order
/// (`after`), which is therefore the same on all ranks. The result is verified.
///
/// Throws GraphError: dist_graph_build for a graph or options that make no sense, all_reduce_insert where a
/// gradient cannot be found or reduced.
[[nodiscard]] Insertion insert_all_reduce(const Graph& graph, const InsertOptions& options);

/// The items that a plan is made of: gradients by readiness, huge ones in pieces.
[[nodiscard]] std::vector<Item> items_of(const Graph& graph, const std::vector<Gradient>& gradients,
                                         const InsertOptions& options);

}  // namespace cohort::graph
