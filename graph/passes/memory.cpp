// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/memory.h>

#include <cohort/graph/passes/save_memory.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::graph {
namespace {

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

bool is_view(const Node& node) { return node.op == "split" || node.op == "join"; }

/// Lays gradients side by side and lets results be where they come from.
class GradientRegions {
 public:
  GradientRegions(const Graph& graph, MemoryPlan& plan) : graph_(graph), plan_(plan) {
    for (const NodeId id : graph.order())
      if (graph.node(id).kind == NodeKind::collective) add_inputs(graph.node(id));
    std::map<DataType, std::uint64_t> begins;
    for (const auto& [type, bytes] : sizes_) {
      begins[type] = plan.gradient_bytes;
      plan.gradient_bytes += aligned(bytes);
    }
    for (const auto& [tensor, offset] : within_)
      plan.gradient_offsets[tensor] = begins[graph.tensor(tensor).type] + offset;
    for (const NodeId id : graph.order()) follow(graph.node(id));
  }

 private:
  void add_inputs(const Node& node) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorId input = node.inputs[i];
      if (!is_result_[input]) {
        std::uint64_t& size = sizes_[graph_.tensor(input).type];
        within_[input] = size;
        size += graph_.tensor(input).bytes();
      }
      is_result_[node.outputs[i]] = true;
    }
  }

  /// Of what is cut, the whole lies where its first piece does; of what is joined too.
  void follow(const Node& node) {
    auto& offsets = plan_.gradient_offsets;
    if (node.kind == NodeKind::collective) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        offsets[node.outputs[i]] = offsets.at(node.inputs[i]);
    } else if (node.op == "clip") {
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        offsets[node.outputs[i]] = offsets.at(node.inputs[i]);
    } else if (node.op == "split" && offsets.contains(node.outputs.front())) {
      offsets[node.inputs.front()] = offsets.at(node.outputs.front());
    } else if (node.op == "join" && offsets.contains(node.inputs.front())) {
      offsets[node.outputs.front()] = offsets.at(node.inputs.front());
    }
  }

  const Graph& graph_;
  MemoryPlan& plan_;
  std::map<DataType, std::uint64_t> sizes_;
  std::map<TensorId, std::uint64_t> within_;
  std::map<TensorId, bool> is_result_;
};

struct Placed {
  TensorId tensor{};
  Lifetime lifetime;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
};

bool overlap(const Lifetime& one, const Lifetime& other) {
  return one.first <= other.last && other.first <= one.last;
}

/// The smallest gap between those that are needed at the same time, or behind all of them.
std::uint64_t best_offset(const std::vector<Placed>& placed, const Placed& one) {
  std::uint64_t end = 0;
  std::uint64_t best = ~std::uint64_t{0};
  std::uint64_t best_gap = ~std::uint64_t{0};
  for (const Placed& other : placed) {  // by offset
    if (!overlap(other.lifetime, one.lifetime)) continue;
    if (other.offset >= end + one.bytes && other.offset - end < best_gap) {
      best = end;
      best_gap = other.offset - end;
    }
    end = std::max(end, other.offset + other.bytes);
  }
  return best_gap == ~std::uint64_t{0} ? end : best;
}

/// The largest first, each in the smallest gap that holds it.
void place(std::vector<Placed> tensors, bool reuses, MemoryPlan& plan) {
  std::ranges::stable_sort(tensors, std::ranges::greater(), &Placed::bytes);
  std::vector<Placed> placed;
  for (Placed& one : tensors) {
    one.offset = reuses ? best_offset(placed, one) : plan.arena_bytes;
    plan.arena_offsets[one.tensor] = one.offset;
    plan.arena_bytes = std::max(plan.arena_bytes, one.offset + one.bytes);
    placed.insert(std::ranges::upper_bound(placed, one.offset, {}, &Placed::offset), one);
  }
}

void find_peak(const Graph& graph, const std::vector<Placed>& tensors, MemoryPlan& plan) {
  std::vector<std::int64_t> changes(graph.order().size() + 1, 0);
  for (const Placed& one : tensors) {
    changes[one.lifetime.first] += static_cast<std::int64_t>(one.bytes);
    changes[one.lifetime.last + 1] -= static_cast<std::int64_t>(one.bytes);
  }
  std::int64_t live = 0;
  for (std::size_t position = 0; position < graph.order().size(); ++position) {
    live += changes[position];
    if (static_cast<std::uint64_t>(live) <= plan.live_bytes) continue;
    plan.live_bytes = static_cast<std::uint64_t>(live);
    plan.peak_node = graph.order()[position];
  }
}

std::string fits_text(const Graph& graph, const MemoryPlan& plan, std::uint64_t budget) {
  const std::uint64_t fixed = plan.given_bytes + plan.gradient_bytes;
  if (fixed > budget)
    return fmt::format("parameters, inputs and gradients alone take {} bytes: spread parameters over ranks",
                       fixed);
  const SavedMemory checkpointed = checkpoint_activations(graph, budget);
  if (checkpointed.peak_bytes <= budget)
    return fmt::format("gradient checkpointing brings it to {} bytes, for {:.1f} us more compute",
                       checkpointed.peak_bytes, checkpointed.added_us);
  const SavedMemory offloaded = offload_activations(graph, budget, 1e9);
  if (offloaded.peak_bytes <= budget)
    return fmt::format("activation offloading brings it to {} bytes", offloaded.peak_bytes);
  return fmt::format("the least that checkpointing and offloading reach is {} bytes: take a smaller batch",
                     std::min(checkpointed.peak_bytes, offloaded.peak_bytes));
}

}  // namespace

std::map<TensorId, Lifetime> lifetimes_of(const Graph& graph, const Dependencies& dependencies) {
  std::map<TensorId, Lifetime> lifetimes;
  for (const TensorId id : graph.tensors()) {
    const auto producer = dependencies.producer(id);
    if (!producer || graph.tensor(id).role == TensorRole::offloaded) continue;
    Lifetime lifetime{.first = dependencies.position(*producer), .last = dependencies.position(*producer)};
    for (const NodeId reader : dependencies.consumers(id))
      lifetime.last = std::max(lifetime.last, dependencies.position(reader));
    if (graph.tensor(id).role == TensorRole::loss) lifetime.last = graph.order().size() - 1;
    lifetimes[id] = lifetime;
  }
  return lifetimes;
}

MemoryPlan plan_memory(const Graph& graph, bool reuses) {
  MemoryPlan plan;
  const Dependencies dependencies(graph);
  const GradientRegions regions(graph, plan);
  std::map<TensorId, Lifetime> lifetimes = lifetimes_of(graph, dependencies);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_view(node) || plan.gradient_offsets.contains(node.outputs.front())) continue;
    throw GraphError(ErrorCode::dist_graph_build, "node " + node.name,
                     fmt::format("{} of a tensor that no collective reduces", node.op),
                     "cut gradients with split_gradient(), whose pieces are reduced");
  }
  std::vector<Placed> tensors;
  for (const auto& [tensor, lifetime] : lifetimes) {
    if (plan.gradient_offsets.contains(tensor)) continue;
    tensors.push_back(
        {.tensor = tensor, .lifetime = lifetime, .bytes = aligned(graph.tensor(tensor).bytes())});
    plan.bytes_without_reuse += tensors.back().bytes;
  }
  for (const TensorId id : graph.tensors())
    if (!dependencies.producer(id)) plan.given_bytes += graph.tensor(id).bytes();
  find_peak(graph, tensors, plan);
  place(std::move(tensors), reuses, plan);
  plan.bytes_without_reuse += plan.gradient_bytes + plan.given_bytes;
  return plan;
}

void check_memory(const Graph& graph, const MemoryPlan& plan, std::uint64_t budget_bytes) {
  if (budget_bytes == 0 || plan.peak_bytes() <= budget_bytes) return;
  const std::string node =
      plan.peak_node ? "node " + graph.node(*plan.peak_node).name : "graph " + graph.name();
  throw GraphError(
      ErrorCode::memory_overflow, node,
      fmt::format("{} bytes are needed there ({} of activations, {} of gradients, {} given) and {} may be "
                  "used",
                  plan.peak_bytes(), plan.arena_bytes, plan.gradient_bytes, plan.given_bytes, budget_bytes),
      fits_text(graph, plan, budget_bytes));
}

}  // namespace cohort::graph
