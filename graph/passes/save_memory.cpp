// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/save_memory.h>

#include <cohort/graph/dependencies.h>
#include <cohort/graph/passes/memory.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace cohort::graph {
namespace {

constexpr double kMicroseconds = 1e6;

/// An activation that is kept for backward beyond the moment of the peak.
struct Kept {
  TensorId tensor{};
  NodeId producer{};
  std::size_t last_forward = 0;    ///< use, or where it is made
  std::size_t first_backward = 0;  ///< use
};

std::vector<Kept> kept_over(const Graph& graph, const Dependencies& dependencies, std::size_t peak) {
  std::vector<Kept> all;
  for (const TensorId id : graph.tensors()) {
    const auto producer = dependencies.producer(id);
    if (!producer || graph.tensor(id).role != TensorRole::activation) continue;
    if (graph.node(*producer).phase != Phase::forward || graph.node(*producer).kind != NodeKind::compute)
      continue;
    Kept kept{.tensor = id,
              .producer = *producer,
              .last_forward = dependencies.position(*producer),
              .first_backward = kNowhere};
    for (const NodeId reader : dependencies.consumers(id)) {
      const std::size_t position = dependencies.position(reader);
      if (graph.node(reader).phase == Phase::forward)
        kept.last_forward = std::max(kept.last_forward, position);
      else
        kept.first_backward = std::min(kept.first_backward, position);
    }
    if (kept.first_backward == kNowhere || kept.last_forward >= peak || kept.first_backward <= peak) continue;
    all.push_back(kept);
  }
  return all;
}

void read_instead(Graph& graph, const Dependencies& dependencies, TensorId old, TensorId by) {
  for (const NodeId reader : dependencies.consumers(old))
    if (graph.node(reader).phase != Phase::forward) std::ranges::replace(graph.node(reader).inputs, old, by);
}

/// What is there at that place anyhow: given, or needed from before it to behind it.
bool is_there(const Graph& graph, const Dependencies& dependencies, TensorId tensor, std::size_t position) {
  const auto producer = dependencies.producer(tensor);
  if (!producer) return true;
  if (graph.tensor(tensor).role == TensorRole::offloaded) return false;
  return std::ranges::any_of(dependencies.consumers(tensor),
                             [&](NodeId reader) { return dependencies.position(reader) >= position; });
}

bool can_run_again(const Graph& graph, const Dependencies& dependencies, const Kept& kept) {
  const Node& node = graph.node(kept.producer);
  if (node.outputs.size() != 1 || node.attribute_or("has_effects", false)) return false;
  return std::ranges::all_of(
      node.inputs, [&](TensorId input) { return is_there(graph, dependencies, input, kept.first_backward); });
}

Tensor copy_of(const Graph& graph, TensorId tensor, const char* suffix) {
  Tensor copy = graph.tensor(tensor);
  copy.name = graph.free_tensor_name(copy.name + suffix);
  return copy;
}

void run_again(Graph& graph, const Dependencies& dependencies, const Kept& kept, SavedMemory& saved) {
  Node again = graph.node(kept.producer);
  const TensorId result = graph.add_tensor(copy_of(graph, kept.tensor, ".again"));
  again.name = graph.free_node_name(again.name + ".again");
  again.phase = Phase::backward;
  again.outputs = {result};
  again.after.clear();
  saved.added_us += again.duration_us;
  saved.decisions.push_back(fmt::format("{} is computed again before {}: {} bytes, {:.1f} us",
                                        graph.tensor(kept.tensor).name,
                                        graph.node(graph.order()[kept.first_backward]).name,
                                        graph.tensor(kept.tensor).bytes(), again.duration_us));
  read_instead(graph, dependencies, kept.tensor, result);
  graph.insert_node(kept.first_backward, std::move(again));
}

void offload(Graph& graph, const Dependencies& dependencies, const Kept& kept, double bytes_per_s,
             SavedMemory& saved) {
  const std::string name = graph.tensor(kept.tensor).name;
  const double us = static_cast<double>(graph.tensor(kept.tensor).bytes()) / bytes_per_s * kMicroseconds;
  Tensor outside = copy_of(graph, kept.tensor, ".offloaded");
  outside.role = TensorRole::offloaded;
  const TensorId copy = graph.add_tensor(std::move(outside));
  const TensorId back = graph.add_tensor(copy_of(graph, kept.tensor, ".fetched"));
  read_instead(graph, dependencies, kept.tensor, back);
  saved.added_us += 2 * us;
  saved.decisions.push_back(fmt::format("{} is offloaded until {}: {} bytes, {:.1f} us each way", name,
                                        graph.node(graph.order()[kept.first_backward]).name,
                                        graph.tensor(kept.tensor).bytes(), us));
  graph.insert_node(kept.first_backward, {.name = graph.free_node_name(name + ".fetch"),
                                          .op = "fetch",
                                          .phase = Phase::backward,
                                          .inputs = {copy},
                                          .outputs = {back},
                                          .duration_us = us});
  graph.insert_node(kept.last_forward + 1, {.name = graph.free_node_name(name + ".offload"),
                                            .op = "offload",
                                            .inputs = {kept.tensor},
                                            .outputs = {copy},
                                            .duration_us = us});
}

/// Changes one tensor after another, those with the largest gain first, while the peak is above the budget.
/// `gain` is none for what cannot be changed.
template <class Gain, class Change>
SavedMemory save(const Graph& graph, std::uint64_t budget, const Gain& gain, const Change& change) {
  SavedMemory saved{.graph = graph, .peak_bytes = plan_memory(graph).peak_bytes(), .decisions = {}};
  Graph current = graph;
  for (std::uint64_t peak = saved.peak_bytes; peak > budget;) {
    const MemoryPlan plan = plan_memory(current);
    if (!plan.peak_node) break;
    const Dependencies dependencies(current);
    std::optional<std::pair<double, Kept>> best;
    for (const Kept& kept : kept_over(current, dependencies, dependencies.position(*plan.peak_node))) {
      const std::optional<double> one = gain(current, dependencies, kept);
      if (one && (!best || *one > best->first)) best.emplace(*one, kept);
    }
    if (!best) break;
    SavedMemory next = saved;
    change(current, dependencies, best->second, next);
    peak = plan_memory(current).peak_bytes();
    next.peak_bytes = peak;
    next.graph = current;
    saved = std::move(next);
  }
  return saved;
}

}  // namespace

SavedMemory checkpoint_activations(const Graph& graph, std::uint64_t budget_bytes) {
  const auto gain = [](const Graph& current, const Dependencies& dependencies,
                       const Kept& kept) -> std::optional<double> {
    if (!can_run_again(current, dependencies, kept)) return std::nullopt;
    const double us = current.node(kept.producer).duration_us;
    return static_cast<double>(current.tensor(kept.tensor).bytes()) / (us + 1);
  };
  return save(graph, budget_bytes, gain, run_again);
}

SavedMemory offload_activations(const Graph& graph, std::uint64_t budget_bytes, double bytes_per_s) {
  const auto gain = [](const Graph& current, const Dependencies&, const Kept& kept) -> std::optional<double> {
    return static_cast<double>(current.tensor(kept.tensor).bytes());
  };
  const auto change = [bytes_per_s](Graph& current, const Dependencies& dependencies, const Kept& kept,
                                    SavedMemory& saved) {
    offload(current, dependencies, kept, bytes_per_s, saved);
  };
  return save(graph, budget_bytes, gain, change);
}

}  // namespace cohort::graph
