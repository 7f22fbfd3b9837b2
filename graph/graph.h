// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>
#include <cohort/graph/error.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace cohort::graph {

enum class NodeId : std::uint32_t {};
enum class TensorId : std::uint32_t {};

[[nodiscard]] constexpr std::size_t index_of(NodeId id) noexcept { return static_cast<std::size_t>(id); }
[[nodiscard]] constexpr std::size_t index_of(TensorId id) noexcept { return static_cast<std::size_t>(id); }

/// What a tensor is to training. Inputs, parameters and state have no producer; what is offloaded lies
/// outside of the memory that is planned.
enum class TensorRole : std::uint8_t { activation, input, parameter, state, loss, gradient, offloaded };

/// In which part of a step a node runs.
enum class Phase : std::uint8_t { forward, backward, update };

enum class NodeKind : std::uint8_t { compute, collective };

[[nodiscard]] std::string_view to_string(TensorRole role) noexcept;
[[nodiscard]] std::string_view to_string(Phase phase) noexcept;
[[nodiscard]] std::string_view to_string(NodeKind kind) noexcept;
[[nodiscard]] std::optional<TensorRole> parse_tensor_role(std::string_view name) noexcept;
[[nodiscard]] std::optional<Phase> parse_phase(std::string_view name) noexcept;
[[nodiscard]] std::optional<NodeKind> parse_node_kind(std::string_view name) noexcept;

struct Tensor {
  std::string name;
  DataType type = DataType::float32;
  std::vector<std::int64_t> shape{};  ///< empty: one element
  TensorRole role = TensorRole::activation;
  std::optional<TensorId> gradient_of{};  ///< the parameter that this is the gradient of: a mark

  [[nodiscard]] std::uint64_t elements() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return elements() * size_bytes(type); }
};

using Attribute = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

struct Node {
  std::string name;
  std::string op;  ///< "matmul", "all_reduce", ...: what an executor looks its function up by
  NodeKind kind = NodeKind::compute;
  Phase phase = Phase::forward;
  std::vector<TensorId> inputs{};
  std::vector<TensorId> outputs{};
  std::vector<NodeId> after{};  ///< that have to be over, though it reads nothing of theirs
  double duration_us = 0;       ///< that it takes, as far as is known
  std::map<std::string, Attribute> attributes{};

  /// Null: no such attribute, or one of another type.
  template <class T>
  [[nodiscard]] const T* attribute(const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? nullptr : std::get_if<T>(&found->second);
  }
  template <class T>
  [[nodiscard]] T attribute_or(const std::string& key, T otherwise) const {
    const T* const found = attribute<T>(key);
    return found == nullptr ? otherwise : *found;
  }
};

/// One step of training, as data: tensors, and nodes in the order in which a program would run them.
///
/// Passes take a graph and return another one; what they add stands in the attributes. Nothing is checked
/// here but names, which are unique; verify() does the rest. Ids stay valid through insertions and removals.
/// A value: copies share nothing.
class Graph {
 public:
  Graph() : Graph("graph") {}
  explicit Graph(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Throws GraphError (dist_graph_build) for a name that is empty or in use.
  TensorId add_tensor(Tensor tensor);
  /// Behind all others. Throws the same.
  NodeId add_node(Node node) { return insert_node(order_.size(), std::move(node)); }
  /// At that place of the order.
  NodeId insert_node(std::size_t position, Node node);
  /// From the order; whoever refers to it has to be changed by the caller.
  void remove_node(NodeId id);
  void remove_tensor(TensorId id);
  /// Sets the order; it has the same nodes as before (asserted).
  void reorder(std::vector<NodeId> order);

  /// The nodes that there are, in order.
  [[nodiscard]] std::span<const NodeId> order() const noexcept { return order_; }
  /// The tensors that there are, as they were added.
  [[nodiscard]] std::vector<TensorId> tensors() const;
  [[nodiscard]] std::size_t tensor_count() const noexcept { return tensor_names_.size(); }

  [[nodiscard]] const Node& node(NodeId id) const;
  [[nodiscard]] Node& node(NodeId id);
  [[nodiscard]] const Tensor& tensor(TensorId id) const;
  [[nodiscard]] Tensor& tensor(TensorId id);
  [[nodiscard]] std::optional<NodeId> find_node(const std::string& name) const;
  [[nodiscard]] std::optional<TensorId> find_tensor(const std::string& name) const;
  /// More than any id: for tables by id.
  [[nodiscard]] std::size_t node_bound() const noexcept { return nodes_.size(); }
  [[nodiscard]] std::size_t tensor_bound() const noexcept { return tensors_.size(); }
  /// `wanted`, or with a number behind it if that is in use.
  [[nodiscard]] std::string free_node_name(const std::string& wanted) const;
  [[nodiscard]] std::string free_tensor_name(const std::string& wanted) const;

 private:
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Tensor> tensors_;
  std::vector<NodeId> order_;
  std::unordered_map<std::string, NodeId> node_names_;
  std::unordered_map<std::string, TensorId> tensor_names_;
};

}  // namespace cohort::graph
