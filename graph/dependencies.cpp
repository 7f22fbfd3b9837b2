// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/dependencies.h>

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <string>
#include <utility>

namespace cohort::graph {
namespace {

void drop_doubles(std::vector<NodeId>& list) {
  std::ranges::sort(list);
  list.erase(std::ranges::unique(list).begin(), list.end());
}

std::vector<bool> closure(std::span<const NodeId> from, const std::vector<std::vector<NodeId>>& edges) {
  std::vector<bool> seen(edges.size(), false);
  std::vector<NodeId> waiting;
  for (const NodeId node : from)
    if (!seen[index_of(node)]) {
      seen[index_of(node)] = true;
      waiting.push_back(node);
    }
  while (!waiting.empty()) {
    const NodeId node = waiting.back();
    waiting.pop_back();
    for (const NodeId next : edges[index_of(node)])
      if (!seen[index_of(next)]) {
        seen[index_of(next)] = true;
        waiting.push_back(next);
      }
  }
  return seen;
}

/// Walks back among nodes that wait for each other until one comes again: "a -> b -> a".
std::string cycle_text(const Graph& graph, const Dependencies& dependencies,
                       const std::vector<std::size_t>& missing, NodeId start) {
  std::vector<NodeId> path{start};
  for (;;) {
    NodeId next = path.back();
    for (const NodeId before : dependencies.predecessors(path.back()))
      if (missing[index_of(before)] != 0) next = before;
    const auto again = std::ranges::find(path, next);
    if (again != path.end()) {
      std::string text = graph.node(next).name;
      for (auto step = path.rbegin(); step != path.rend(); ++step) {
        text += " -> " + graph.node(*step).name;
        if (*step == next) break;
      }
      return text;
    }
    path.push_back(next);
  }
}

}  // namespace

Dependencies::Dependencies(const Graph& graph)
    : producers_(graph.tensor_bound()),
      consumers_(graph.tensor_bound()),
      positions_(graph.node_bound(), kNowhere),
      predecessors_(graph.node_bound()),
      successors_(graph.node_bound()) {
  for (std::size_t position = 0; position < graph.order().size(); ++position) {
    const NodeId id = graph.order()[position];
    positions_[index_of(id)] = position;
    for (const TensorId output : graph.node(id).outputs) {
      auto& producer = producers_[index_of(output)];
      if (producer)
        throw GraphError(ErrorCode::dist_graph_build, "node " + graph.node(id).name,
                         fmt::format("it produces tensor {}, and so does node {}", graph.tensor(output).name,
                                     graph.node(*producer).name),
                         "give each result a tensor of its own, and add them where both count");
      producer = id;
    }
  }
  for (const NodeId id : graph.order()) {
    auto& before = predecessors_[index_of(id)];
    for (const TensorId input : graph.node(id).inputs) {
      auto& readers = consumers_[index_of(input)];
      if (readers.empty() || readers.back() != id) readers.push_back(id);
      if (const auto producer = producers_[index_of(input)]) before.push_back(*producer);
    }
    for (const NodeId other : graph.node(id).after)
      if (positions_[index_of(other)] != kNowhere) before.push_back(other);
    drop_doubles(before);
    for (const NodeId other : before) successors_[index_of(other)].push_back(id);
  }
}

std::vector<bool> Dependencies::reached_from(std::span<const NodeId> nodes) const {
  return closure(nodes, successors_);
}
std::vector<bool> Dependencies::leading_to(std::span<const NodeId> nodes) const {
  return closure(nodes, predecessors_);
}

std::vector<NodeId> topological_order(const Graph& graph, const Dependencies& dependencies) {
  std::vector<std::size_t> missing(graph.node_bound(), 0);
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (const NodeId id : graph.order()) {
    missing[index_of(id)] = dependencies.predecessors(id).size();
    if (missing[index_of(id)] == 0) ready.push(dependencies.position(id));
  }
  std::vector<NodeId> order;
  order.reserve(graph.order().size());
  while (!ready.empty()) {
    const NodeId id = graph.order()[ready.top()];
    ready.pop();
    order.push_back(id);
    for (const NodeId next : dependencies.successors(id))
      if (--missing[index_of(next)] == 0) ready.push(dependencies.position(next));
  }
  if (order.size() == graph.order().size()) return order;
  for (const NodeId id : graph.order())
    if (missing[index_of(id)] != 0)
      throw GraphError(ErrorCode::dist_graph_build, "node " + graph.node(id).name,
                       "nodes wait for each other: " + cycle_text(graph, dependencies, missing, id),
                       "a step's graph has no loops: unroll them, or drop one of these dependencies");
  return order;
}

Graph sorted(Graph graph) {
  const Dependencies dependencies(graph);
  graph.reorder(topological_order(graph, dependencies));
  return graph;
}

}  // namespace cohort::graph
