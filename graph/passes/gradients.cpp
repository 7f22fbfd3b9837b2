// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/gradients.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace cohort::graph {
namespace {

constexpr const char* kMarkIt = "mark the right one with gradient_of";

/// The parameter that an update changes: the attribute says so, or it is the only one that it reads.
std::optional<TensorId> updated_by(const Graph& graph, const Node& node) {
  if (node.phase != Phase::update || node.kind != NodeKind::compute) return std::nullopt;
  if (const auto* name = node.attribute<std::string>("updates")) {
    const auto found = graph.find_tensor(*name);
    if (!found)
      throw GraphError(ErrorCode::all_reduce_insert, "node " + node.name,
                       fmt::format("it updates {}, which is not there", *name),
                       "name a parameter of the graph");
    return found;
  }
  std::optional<TensorId> only;
  for (const TensorId input : node.inputs) {
    if (graph.tensor(input).role != TensorRole::parameter) continue;
    if (only && *only != input) return std::nullopt;
    only = input;
  }
  return only;
}

/// Updates by the parameter that they change.
std::map<TensorId, std::vector<NodeId>> updates_of(const Graph& graph) {
  std::map<TensorId, std::vector<NodeId>> updates;
  for (const NodeId id : graph.order())
    if (const auto parameter = updated_by(graph, graph.node(id))) updates[*parameter].push_back(id);
  return updates;
}

class Finder {
 public:
  Finder(const Graph& graph, const Dependencies& dependencies)
      : graph_(graph), dependencies_(dependencies), updates_(updates_of(graph)) {
    std::vector<NodeId> losses;
    for (const TensorId id : graph.tensors()) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.gradient_of) has_mark_.insert(*tensor.gradient_of);
      if (tensor.role == TensorRole::loss)
        if (const auto producer = dependencies.producer(id)) losses.push_back(*producer);
    }
    after_loss_ = dependencies.reached_from(losses);
    std::vector<NodeId> all;
    for (const auto& [parameter, nodes] : updates_) all.insert(all.end(), nodes.begin(), nodes.end());
    before_update_ = dependencies.leading_to(all);
  }

  [[nodiscard]] std::vector<Gradient> find() const {
    std::map<TensorId, std::vector<TensorId>> found = marked();
    for (const auto& [parameter, nodes] : updates_) {
      if (has_mark_.contains(parameter)) continue;
      const std::vector<TensorId> candidates = by_def_use(parameter, nodes);
      if (candidates.size() > 1)
        throw GraphError(ErrorCode::all_reduce_insert, "tensor " + graph_.tensor(parameter).name,
                         fmt::format("its update reads {} and {}, and either could be its gradient",
                                     graph_.tensor(candidates[0]).name, graph_.tensor(candidates[1]).name),
                         kMarkIt);
      if (!candidates.empty()) found.emplace(parameter, candidates);
    }
    std::vector<Gradient> gradients;
    for (auto& [parameter, parts] : found) gradients.push_back({parameter, std::move(parts)});
    std::ranges::sort(gradients, {}, [this](const Gradient& one) { return last_position(one); });
    return gradients;
  }

 private:
  [[nodiscard]] std::size_t last_position(const Gradient& gradient) const {
    std::size_t last = 0;
    for (const TensorId part : gradient.parts)
      last = std::max(last, dependencies_.position(*dependencies_.producer(part)));
    return last;
  }

  [[nodiscard]] std::map<TensorId, std::vector<TensorId>> marked() const {
    std::map<TensorId, std::vector<TensorId>> all;
    for (const TensorId id : graph_.tensors()) {
      const auto parameter = graph_.tensor(id).gradient_of;
      if (!parameter) continue;
      if (dependencies_.producer(id)) all[*parameter].push_back(id);
    }
    std::map<TensorId, std::vector<TensorId>> used;
    for (const auto& [parameter, parts] : all)
      for (const TensorId part : parts)
        if (!is_part_of_another(part, parts) && (updates_.empty() || leads_to_update(part)))
          used[parameter].push_back(part);
    return used;
  }

  /// Whether another one of these is made of it, in backward.
  [[nodiscard]] bool is_part_of_another(TensorId part, const std::vector<TensorId>& parts) const {
    if (parts.size() < 2) return false;
    std::vector<NodeId> readers;
    for (const NodeId reader : dependencies_.consumers(part))
      if (graph_.node(reader).phase == Phase::backward) readers.push_back(reader);
    const std::vector<bool> reached = dependencies_.reached_from(readers);
    return std::ranges::any_of(parts, [&](TensorId other) {
      return other != part && reached[index_of(*dependencies_.producer(other))];
    });
  }

  [[nodiscard]] bool leads_to_update(TensorId tensor) const {
    return std::ranges::any_of(dependencies_.consumers(tensor),
                               [this](NodeId reader) { return before_update_[index_of(reader)]; });
  }

  /// From the updates back through what belongs to them, to what backward has made of the loss.
  [[nodiscard]] std::vector<TensorId> by_def_use(TensorId parameter,
                                                 const std::vector<NodeId>& updates) const {
    std::vector<TensorId> found;
    std::set<NodeId> seen(updates.begin(), updates.end());
    std::vector<NodeId> waiting = updates;
    while (!waiting.empty()) {
      const Node& node = graph_.node(waiting.back());
      waiting.pop_back();
      for (const TensorId input : node.inputs) {
        const auto producer = dependencies_.producer(input);
        if (!producer) continue;
        if (graph_.node(*producer).phase == Phase::update) {
          if (seen.insert(*producer).second) waiting.push_back(*producer);
        } else if (after_loss_[index_of(*producer)] &&
                   graph_.tensor(input).shape == graph_.tensor(parameter).shape &&
                   std::ranges::find(found, input) == found.end()) {
          found.push_back(input);
        }
      }
    }
    return found;
  }

  const Graph& graph_;
  const Dependencies& dependencies_;
  std::map<TensorId, std::vector<NodeId>> updates_;
  std::vector<bool> after_loss_;
  std::vector<bool> before_update_;
  std::set<TensorId> has_mark_;
};

}  // namespace

std::vector<Gradient> find_gradients(const Graph& graph, const Dependencies& dependencies) {
  std::vector<Gradient> gradients = Finder(graph, dependencies).find();
  if (gradients.empty())
    throw GraphError(
        ErrorCode::all_reduce_insert, "graph " + graph.name(), "it has no gradient that is used",
        "mark gradients with gradient_of, or give updates the phase `update` and the loss the role "
        "`loss`");
  return gradients;
}

std::vector<double> end_times_us(const Graph& graph) {
  std::vector<double> ends(graph.node_bound(), 0);
  double now = 0;
  for (const NodeId id : graph.order()) {
    if (graph.node(id).kind == NodeKind::compute) now += graph.node(id).duration_us;
    ends[index_of(id)] = now;
  }
  return ends;
}

}  // namespace cohort::graph
