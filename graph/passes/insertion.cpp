// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/passes/insertion.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace cohort::graph {
namespace {

/// One collective of a form.
struct Part {
  const char* op;
  const char* group;
  bool reduces;
};

std::span<const Part> parts_of(ReduceForm form) {
  static constexpr std::array<Part, 1> kFlat = {{{"all_reduce", "world", true}}};
  static constexpr std::array<Part, 3> kShares = {{{"reduce_scatter", "host", true},
                                                   {"all_reduce", "across_hosts", true},
                                                   {"all_gather", "host", false}}};
  static constexpr std::array<Part, 3> kLeader = {
      {{"reduce", "host", true}, {"all_reduce", "leaders", true}, {"broadcast", "host", false}}};
  switch (form) {
    case ReduceForm::flat: return kFlat;
    case ReduceForm::shares: return kShares;
    case ReduceForm::leader: return kLeader;
  }
  return kFlat;
}

void replace(std::vector<TensorId>& list, TensorId old, TensorId by) { std::ranges::replace(list, old, by); }

std::size_t position_of(const Graph& graph, NodeId node) {
  return static_cast<std::size_t>(std::ranges::find(graph.order(), node) - graph.order().begin());
}

}  // namespace

std::string_view to_string(ReduceForm form) noexcept {
  switch (form) {
    case ReduceForm::flat: return "flat";
    case ReduceForm::shares: return "shares";
    case ReduceForm::leader: return "leader";
  }
  return "unknown";
}

std::size_t earliest_insertion_point(const Dependencies& dependencies, std::span<const TensorId> tensors) {
  std::size_t point = 0;
  for (const TensorId tensor : tensors)
    if (const auto producer = dependencies.producer(tensor))
      point = std::max(point, dependencies.position(*producer) + 1);
  return point;
}

std::vector<Node> create_all_reduce(Graph& graph, std::span<const TensorId> tensors,
                                    const CollectiveSpec& spec) {
  std::vector<Node> nodes;
  std::uint64_t bytes = 0;
  for (const TensorId tensor : tensors) bytes += graph.tensor(tensor).bytes();
  const std::span<const Part> parts = parts_of(spec.form);
  std::vector<TensorId> inputs(tensors.begin(), tensors.end());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Node node{.name = graph.free_node_name(parts.size() == 1 ? spec.name
                                                             : fmt::format("{}.{}", spec.name, parts[i].op)),
              .op = parts[i].op,
              .kind = NodeKind::collective,
              .phase = Phase::backward,
              .inputs = inputs};
    const bool is_last = i + 1 == parts.size();
    for (const TensorId tensor : tensors) {
      Tensor result = graph.tensor(tensor);
      result.name = graph.free_tensor_name(is_last ? result.name + ".reduced"
                                                   : fmt::format("{}.{}", result.name, parts[i].op));
      result.gradient_of.reset();
      node.outputs.push_back(graph.add_tensor(std::move(result)));
    }
    node.attributes = {{"bucket", spec.bucket},
                       {"bytes", static_cast<std::int64_t>(bytes)},
                       {"group", std::string(parts[i].group)},
                       {"priority", spec.priority},
                       {"form", std::string(to_string(spec.form))}};
    if (parts[i].reduces) node.attributes["reduction"] = std::string(cohort::to_string(spec.reduction));
    inputs = node.outputs;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<NodeId> insert_collectives(Graph& graph, const Dependencies& dependencies,
                                       std::vector<Node> nodes, std::size_t position) {
  const std::vector<TensorId> from = nodes.front().inputs;
  const std::vector<TensorId> to = nodes.back().outputs;
  for (std::size_t i = 0; i < from.size(); ++i)
    for (const NodeId reader : dependencies.consumers(from[i])) {
      if (graph.node(reader).phase == Phase::backward) continue;
      if (dependencies.position(reader) < position)
        throw GraphError(
            ErrorCode::all_reduce_insert, "node " + graph.node(reader).name,
            fmt::format("it reads gradient {} before its bucket can be reduced, at {} where the bucket "
                        "ends at {}",
                        graph.tensor(from[i]).name, dependencies.position(reader), position),
            "run updates behind backward, or take smaller buckets");
      replace(graph.node(reader).inputs, from[i], to[i]);
    }
  std::vector<NodeId> ids;
  for (Node& node : nodes) ids.push_back(graph.insert_node(position + ids.size(), std::move(node)));
  return ids;
}

Graph with_updates_last(Graph graph) {
  const Dependencies dependencies(graph);
  std::vector<NodeId> others;
  for (const NodeId id : graph.order())
    if (graph.node(id).phase != Phase::update) others.push_back(id);
  const std::vector<bool> is_needed = dependencies.leading_to(others);
  std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  std::ranges::stable_partition(order, [&](NodeId id) { return is_needed[index_of(id)]; });
  graph.reorder(std::move(order));
  return graph;
}

Graph with_updates_as_reduced(Graph graph, const std::map<TensorId, std::size_t>& place) {
  const Dependencies dependencies(graph);
  std::vector<std::size_t> last(graph.node_bound(), 0);  // place that each node waits for
  std::vector<NodeId> order(graph.order().begin(), graph.order().end());
  std::size_t first_update = order.size();
  while (first_update > 0 && graph.node(order[first_update - 1]).phase == Phase::update) --first_update;
  for (std::size_t i = first_update; i < order.size(); ++i) {
    std::size_t& latest = last[index_of(order[i])];
    for (const NodeId before : dependencies.predecessors(order[i]))
      if (dependencies.position(before) >= first_update) latest = std::max(latest, last[index_of(before)]);
    for (const TensorId input : graph.node(order[i]).inputs)
      if (const auto found = place.find(input); found != place.end())
        latest = std::max(latest, found->second);
  }
  const auto updates = order.begin() + static_cast<std::ptrdiff_t>(first_update);
  std::stable_sort(updates, order.end(),
                   [&](NodeId one, NodeId other) { return last[index_of(one)] < last[index_of(other)]; });
  graph.reorder(std::move(order));
  return graph;
}

void add_up_parts(Graph& graph, std::vector<Gradient>& gradients) {
  for (Gradient& gradient : gradients) {
    if (gradient.parts.size() < 2) continue;
    const Dependencies dependencies(graph);
    Tensor sum = graph.tensor(gradient.parts.front());
    sum.name = graph.free_tensor_name(graph.tensor(gradient.parameter).name + ".gradient");
    sum.gradient_of = gradient.parameter;
    const std::string name = graph.free_node_name(sum.name + ".sum");
    const TensorId total = graph.add_tensor(std::move(sum));
    for (const TensorId part : gradient.parts)
      for (const NodeId reader : dependencies.consumers(part))
        if (graph.node(reader).phase == Phase::update) {
          auto& inputs = graph.node(reader).inputs;
          replace(inputs, part, total);
          const auto first = std::ranges::find(inputs, total);
          inputs.erase(std::remove(first + 1, inputs.end(), total), inputs.end());
        }
    graph.insert_node(
        earliest_insertion_point(dependencies, gradient.parts),
        {.name = name, .op = "add", .phase = Phase::backward, .inputs = gradient.parts, .outputs = {total}});
    gradient.parts = {total};
  }
}

std::vector<TensorId> split_gradient(Graph& graph, TensorId gradient, std::span<const std::uint64_t> bytes) {
  const Tensor whole = graph.tensor(gradient);
  std::vector<TensorId> pieces;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    pieces.push_back(
        graph.add_tensor({.name = graph.free_tensor_name(fmt::format("{}[{}]", whole.name, i)),
                          .type = whole.type,
                          .shape = {static_cast<std::int64_t>(bytes[i] / size_bytes(whole.type))},
                          .role = TensorRole::gradient}));
  const Dependencies dependencies(graph);
  const std::span<const TensorId> only(&gradient, 1);
  graph.insert_node(earliest_insertion_point(dependencies, only),
                    {.name = graph.free_node_name(whole.name + ".split"),
                     .op = "split",
                     .phase = Phase::backward,
                     .inputs = {gradient},
                     .outputs = pieces});
  return pieces;
}

void join_pieces(Graph& graph, TensorId gradient, std::span<const TensorId> results) {
  Tensor whole = graph.tensor(gradient);
  whole.name = graph.free_tensor_name(whole.name + ".reduced");
  whole.gradient_of.reset();
  const std::string name = graph.free_node_name(graph.tensor(gradient).name + ".join");
  const TensorId joined = graph.add_tensor(std::move(whole));
  const Dependencies dependencies(graph);
  const std::size_t position = earliest_insertion_point(dependencies, results);
  std::vector<Node> nodes;
  for (const NodeId reader : dependencies.consumers(gradient)) {
    if (graph.node(reader).phase != Phase::update) continue;
    if (position_of(graph, reader) < position)
      throw GraphError(ErrorCode::all_reduce_insert, "node " + graph.node(reader).name,
                       fmt::format("it reads gradient {} before all of its pieces are reduced",
                                   graph.tensor(gradient).name),
                       "run updates behind backward");
    replace(graph.node(reader).inputs, gradient, joined);
  }
  graph.insert_node(position, {.name = name,
                               .op = "join",
                               .phase = Phase::update,
                               .inputs = {results.begin(), results.end()},
                               .outputs = {joined}});
}

}  // namespace cohort::graph
