// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/fuse_kernels.h>

#include <cohort/graph/dependencies.h>
#include <cohort/graph/operators.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace cohort::graph {
namespace {

bool can_be_fused(const Graph& graph, const Node& node) {
  if (node.kind != NodeKind::compute || !is_elementwise(node.op) || node.op == "fused" || node.op == "cast")
    return false;
  if (node.outputs.size() != 1 || node.inputs.empty() || !node.after.empty() || !node.attributes.empty())
    return false;
  const Tensor& out = graph.tensor(node.outputs.front());
  return std::ranges::all_of(node.inputs, [&](TensorId input) {
    return graph.tensor(input).type == out.type && graph.tensor(input).shape == out.shape;
  });
}

/// The node that alone reads this one's result, if it can be fused with it.
std::optional<NodeId> follower(const Graph& graph, const Dependencies& dependencies, NodeId id,
                               const std::set<NodeId>& waited_for) {
  const Node& node = graph.node(id);
  const Tensor& out = graph.tensor(node.outputs.front());
  const auto readers = dependencies.consumers(node.outputs.front());
  if (readers.size() != 1 || out.gradient_of || out.role != TensorRole::activation || waited_for.contains(id))
    return std::nullopt;
  const Node& next = graph.node(readers.front());
  if (!can_be_fused(graph, next) || next.phase != node.phase) return std::nullopt;
  return readers.front();
}

Node fused(const Graph& graph, const std::vector<NodeId>& chain) {
  Node node{.name = graph.free_node_name(graph.node(chain.back()).name + ".fused"),
            .op = "fused",
            .phase = graph.node(chain.back()).phase};
  std::string ops;
  std::vector<std::int64_t> operands;
  std::int64_t saved_bytes = 0;
  std::optional<TensorId> previous;
  for (const NodeId id : chain) {
    const Node& part = graph.node(id);
    ops += (ops.empty() ? "" : ";") + part.op;
    operands.push_back(static_cast<std::int64_t>(part.inputs.size()));
    for (const TensorId input : part.inputs) {
      if (previous && input == *previous) {
        operands.push_back(kPrevious);
        continue;
      }
      const auto found = std::ranges::find(node.inputs, input);
      operands.push_back(found - node.inputs.begin());
      if (found == node.inputs.end()) node.inputs.push_back(input);
    }
    if (previous) saved_bytes += 2 * static_cast<std::int64_t>(graph.tensor(*previous).bytes());
    previous = part.outputs.front();
    node.duration_us += part.duration_us;
  }
  node.outputs = {*previous};
  node.attributes = {{"ops", ops}, {"operands", operands}, {"saved_bytes", saved_bytes}};
  return node;
}

/// Those that others come after stay by themselves.
std::set<NodeId> waited_for(const Graph& graph) {
  std::set<NodeId> nodes;
  for (const NodeId id : graph.order())
    for (const NodeId other : graph.node(id).after) nodes.insert(other);
  return nodes;
}

}  // namespace

Graph fuse_kernels(const Graph& graph) {
  Graph result = graph;
  const Dependencies dependencies(graph);
  const std::set<NodeId> fixed = waited_for(graph);
  std::set<NodeId> done;
  for (const NodeId id : graph.order()) {
    if (done.contains(id) || fixed.contains(id) || !can_be_fused(graph, graph.node(id))) continue;
    std::vector<NodeId> chain{id};
    while (const auto next = follower(graph, dependencies, chain.back(), fixed)) {
      if (done.contains(*next) || fixed.contains(*next)) break;
      chain.push_back(*next);
    }
    if (chain.size() < 2) continue;
    done.insert(chain.begin(), chain.end());
    Node node = fused(graph, chain);
    const auto place = std::ranges::find(result.order(), chain.back()) - result.order().begin();
    for (const NodeId part : chain)
      if (part != chain.back()) result.remove_tensor(graph.node(part).outputs.front());
    result.insert_node(static_cast<std::size_t>(place), std::move(node));
    for (const NodeId part : chain) result.remove_node(part);
  }
  return result;
}

std::vector<FusedStep> steps_of(const Node& node) {
  const auto* ops = node.attribute<std::string>("ops");
  const auto* operands = node.attribute<std::vector<std::int64_t>>("operands");
  std::vector<FusedStep> steps;
  std::size_t at = 0;
  for (std::size_t begin = 0; ops != nullptr && operands != nullptr && begin <= ops->size();) {
    const std::size_t end = std::min(ops->find(';', begin), ops->size());
    FusedStep step{.op = ops->substr(begin, end - begin), .operands = {}};
    const std::int64_t count = at < operands->size() ? (*operands)[at++] : 0;
    for (std::int64_t i = 0; i < count && at < operands->size(); ++i)
      step.operands.push_back((*operands)[at++]);
    const bool is_known = std::ranges::all_of(step.operands, [&](std::int64_t operand) {
      return operand < static_cast<std::int64_t>(node.inputs.size()) &&
             operand >= (steps.empty() ? 0 : kPrevious);
    });
    if (step.operands.empty() || !is_known) break;
    steps.push_back(std::move(step));
    begin = end + 1;
  }
  const std::size_t wanted = ops == nullptr ? 1 : static_cast<std::size_t>(std::ranges::count(*ops, ';')) + 1;
  if (steps.size() != wanted || at != operands->size())
    throw GraphError(ErrorCode::dist_graph_build, "node " + node.name,
                     "its ops and operands do not fit each other", "let fuse_kernels() make it");
  return steps;
}

}  // namespace cohort::graph
