// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/timeline/predict.h>

#include <cohort/graph/dependencies.h>

#include <algorithm>
#include <limits>

namespace cohort::graph {
namespace {

double ready_at(const Dependencies& dependencies, NodeId id, const std::vector<double>& ends) {
  double ready = 0;
  for (const NodeId before : dependencies.predecessors(id)) ready = std::max(ready, ends[index_of(before)]);
  return ready;
}

/// Without its place in the order of collectives, which the link knows.
double ready_but_for_order(const Graph& graph, const Dependencies& dependencies, NodeId id,
                           const std::vector<double>& ends) {
  double ready = 0;
  for (const NodeId before : dependencies.predecessors(id))
    if (graph.node(before).kind == NodeKind::compute) ready = std::max(ready, ends[index_of(before)]);
  return ready;
}

}  // namespace

Timeline predict_step(const Graph& graph, const CollectiveCosts& costs) {
  const Dependencies dependencies(graph);
  std::vector<double> ends(graph.node_bound(), 0);
  Timeline timeline;
  double compute_free = 0;
  double link_free = -std::numeric_limits<double>::infinity();
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.kind == NodeKind::compute) {
      const double begin = std::max(compute_free, ready_at(dependencies, id, ends));
      compute_free = ends[index_of(id)] = begin + node.duration_us;
      timeline.spans.push_back({id, node.kind, begin, compute_free});
      continue;
    }
    const Cost* const cost = costs(node);
    if (cost == nullptr)
      throw GraphError(ErrorCode::dist_graph_build, "node " + node.name, "nothing is known of what it costs",
                       "give a cost for each op and group of collectives");
    const auto bytes = static_cast<std::uint64_t>(node.attribute_or<std::int64_t>("bytes", 0));
    const double ready = ready_but_for_order(graph, dependencies, id, ends);
    const double end = std::max(ready + cost->idle(bytes), link_free + cost->queued(bytes));
    timeline.spans.push_back({id, node.kind, std::max(ready, link_free), end});
    link_free = ends[index_of(id)] = end;
  }
  return timeline;
}

Timeline predict_step(const Graph& graph, const Cost& cost) {
  return predict_step(graph, [&cost](const Node&) { return &cost; });
}

}  // namespace cohort::graph
