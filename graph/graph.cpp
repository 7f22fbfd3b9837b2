// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/graph.h>

#include <cohort/engine/assert.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cohort::graph {
namespace {

constexpr std::array<std::string_view, 7> kRoleNames = {"activation", "input",    "parameter", "state",
                                                        "loss",       "gradient", "offloaded"};
constexpr std::array<std::string_view, 3> kPhaseNames = {"forward", "backward", "update"};
constexpr std::array<std::string_view, 2> kKindNames = {"compute", "collective"};

template <class Enumeration, std::size_t kSize>
std::optional<Enumeration> parse(const std::array<std::string_view, kSize>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enumeration>(found - names.begin());
}

template <class Id, class Names>
void check_name(const std::string& name, const Names& names, std::string_view what) {
  if (name.empty())
    throw GraphError(ErrorCode::dist_graph_build, "", fmt::format("a {} has no name", what),
                     "give each a name of its own");
  if (names.contains(name))
    throw GraphError(ErrorCode::dist_graph_build, fmt::format("{} {}", what, name),
                     "the name is in use already", "give each a name of its own");
}

template <class Names>
std::string free_name(const std::string& wanted, const Names& names) {
  if (!names.contains(wanted)) return wanted;
  for (std::size_t number = 2;; ++number) {
    std::string name = fmt::format("{}.{}", wanted, number);
    if (!names.contains(name)) return name;
  }
}

}  // namespace

std::string_view to_string(TensorRole role) noexcept { return kRoleNames[static_cast<std::size_t>(role)]; }
std::string_view to_string(Phase phase) noexcept { return kPhaseNames[static_cast<std::size_t>(phase)]; }
std::string_view to_string(NodeKind kind) noexcept { return kKindNames[static_cast<std::size_t>(kind)]; }
std::optional<TensorRole> parse_tensor_role(std::string_view name) noexcept {
  return parse<TensorRole>(kRoleNames, name);
}
std::optional<Phase> parse_phase(std::string_view name) noexcept { return parse<Phase>(kPhaseNames, name); }
std::optional<NodeKind> parse_node_kind(std::string_view name) noexcept {
  return parse<NodeKind>(kKindNames, name);
}

std::uint64_t Tensor::elements() const noexcept {
  std::uint64_t product = 1;
  for (const std::int64_t extent : shape)
    product *= static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 0));
  return product;
}

TensorId Graph::add_tensor(Tensor tensor) {
  check_name<TensorId>(tensor.name, tensor_names_, "tensor");
  const auto id = static_cast<TensorId>(tensors_.size());
  tensor_names_.emplace(tensor.name, id);
  tensors_.push_back(std::move(tensor));
  return id;
}

NodeId Graph::insert_node(std::size_t position, Node node) {
  COHORT_ASSERT(position <= order_.size(), "there is no place {} among {} nodes", position, order_.size());
  check_name<NodeId>(node.name, node_names_, "node");
  const auto id = static_cast<NodeId>(nodes_.size());
  node_names_.emplace(node.name, id);
  nodes_.push_back(std::move(node));
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(position), id);
  return id;
}

void Graph::remove_node(NodeId id) {
  node_names_.erase(node(id).name);
  std::erase(order_, id);
}

void Graph::remove_tensor(TensorId id) { tensor_names_.erase(tensor(id).name); }

void Graph::reorder(std::vector<NodeId> order) {
  COHORT_ASSERT(std::ranges::is_permutation(order, order_), "an order of {} nodes for a graph of {}",
                order.size(), order_.size());
  order_ = std::move(order);
}

std::vector<TensorId> Graph::tensors() const {
  std::vector<TensorId> ids;
  ids.reserve(tensor_names_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto found = tensor_names_.find(tensors_[i].name);
    if (found != tensor_names_.end() && index_of(found->second) == i) ids.push_back(found->second);
  }
  return ids;
}

const Node& Graph::node(NodeId id) const {
  COHORT_ASSERT(index_of(id) < nodes_.size(), "there is no node {}", index_of(id));
  return nodes_[index_of(id)];
}
Node& Graph::node(NodeId id) { return const_cast<Node&>(std::as_const(*this).node(id)); }

const Tensor& Graph::tensor(TensorId id) const {
  COHORT_ASSERT(index_of(id) < tensors_.size(), "there is no tensor {}", index_of(id));
  return tensors_[index_of(id)];
}
Tensor& Graph::tensor(TensorId id) { return const_cast<Tensor&>(std::as_const(*this).tensor(id)); }

std::optional<NodeId> Graph::find_node(const std::string& name) const {
  const auto found = node_names_.find(name);
  return found == node_names_.end() ? std::nullopt : std::optional(found->second);
}
std::optional<TensorId> Graph::find_tensor(const std::string& name) const {
  const auto found = tensor_names_.find(name);
  return found == tensor_names_.end() ? std::nullopt : std::optional(found->second);
}

std::string Graph::free_node_name(const std::string& wanted) const { return free_name(wanted, node_names_); }
std::string Graph::free_tensor_name(const std::string& wanted) const {
  return free_name(wanted, tensor_names_);
}

}  // namespace cohort::graph
