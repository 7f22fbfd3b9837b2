// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/clip_gradients.h>

#include <cohort/graph/dependencies.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cohort::graph {
namespace {

constexpr float kLeastScale = 1;
constexpr float kMostScale = 16777216;

/// What updates read of what collectives, or the joining of their pieces, have made.
std::vector<TensorId> reduced_gradients(const Graph& graph, const Dependencies& dependencies) {
  std::vector<TensorId> reduced;
  for (const TensorId id : graph.tensors()) {
    const auto producer = dependencies.producer(id);
    if (!producer) continue;
    const Node& node = graph.node(*producer);
    if (node.kind != NodeKind::collective && node.op != "join") continue;
    const auto readers = dependencies.consumers(id);
    const bool is_for_updates = std::ranges::any_of(readers, [&](NodeId reader) {
      return graph.node(reader).phase == Phase::update && graph.node(reader).op != "join";
    });
    if (is_for_updates) reduced.push_back(id);
  }
  return reduced;
}

TensorId state(Graph& graph, const char* name) {
  return graph.add_tensor({.name = name, .shape = {1}, .role = TensorRole::state});
}

}  // namespace

Graph clip_gradients(Graph graph, double max_norm) {
  const Dependencies dependencies(graph);
  const std::vector<TensorId> reduced = reduced_gradients(graph, dependencies);
  if (reduced.empty())
    throw GraphError(ErrorCode::all_reduce_insert, "graph " + graph.name(),
                     "no update reads a reduced gradient", "clip after insert_all_reduce()");
  Node clip{.name = graph.free_node_name("clip"), .op = "clip", .phase = Phase::update, .inputs = reduced};
  std::size_t position = 0;
  for (const TensorId id : reduced) {
    Tensor clipped = graph.tensor(id);
    if (clipped.type != DataType::float32)
      throw GraphError(ErrorCode::all_reduce_insert, "tensor " + clipped.name,
                       fmt::format("it is {}", cohort::to_string(clipped.type)),
                       "gradients are clipped as float32");
    clipped.name = graph.free_tensor_name(clipped.name + ".clipped");
    const TensorId result = graph.add_tensor(std::move(clipped));
    clip.outputs.push_back(result);
    position = std::max(position, dependencies.position(*dependencies.producer(id)) + 1);
    for (const NodeId reader : dependencies.consumers(id))
      if (graph.node(reader).phase == Phase::update && graph.node(reader).op != "join")
        std::ranges::replace(graph.node(reader).inputs, id, result);
  }
  for (const char* name : {kLossScale, kOverflow, kGradientNorm}) clip.inputs.push_back(state(graph, name));
  clip.attributes["max_norm"] = max_norm;
  graph.insert_node(position, std::move(clip));
  return sorted(std::move(graph));  // readers stood before the last collective
}

void LossScaler::update(bool has_overflow) noexcept {
  steps_ = has_overflow ? 0 : steps_ + 1;
  if (has_overflow)
    scale_ = std::max(kLeastScale, scale_ / 2);
  else if (steps_ % growth_steps_ == 0)
    scale_ = std::min(kMostScale, scale_ * 2);
}

}  // namespace cohort::graph
