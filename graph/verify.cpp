// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/verify.h>

#include <cohort/graph/dependencies.h>
#include <cohort/graph/operators.h>

#include <fmt/format.h>

#include <string>
#include <vector>

namespace cohort::graph {
namespace {

[[noreturn]] void refuse(const std::string& whom, const std::string& cause, const std::string& advice) {
  throw GraphError(ErrorCode::dist_graph_build, whom, cause, advice);
}

bool is_given(TensorRole role) {
  return role == TensorRole::input || role == TensorRole::parameter || role == TensorRole::state;
}

void check_references(const Graph& graph) {
  std::vector<bool> is_there(graph.tensor_bound(), false);
  for (const TensorId id : graph.tensors()) is_there[index_of(id)] = true;
  std::vector<bool> is_placed(graph.node_bound(), false);
  for (const NodeId id : graph.order()) is_placed[index_of(id)] = true;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const TensorId tensor : *list)
        if (index_of(tensor) >= is_there.size() || !is_there[index_of(tensor)])
          refuse("node " + node.name,
                 fmt::format("it refers to tensor number {}, which is not there", index_of(tensor)),
                 "add the tensor to this graph first");
    for (const NodeId other : node.after)
      if (index_of(other) >= is_placed.size() || !is_placed[index_of(other)])
        refuse("node " + node.name,
               fmt::format("it comes after node number {}, which is not there", index_of(other)),
               "add that node first, or drop the dependency");
  }
}

void check_producers(const Graph& graph, const Dependencies& dependencies) {
  for (const TensorId id : graph.tensors()) {
    const Tensor& tensor = graph.tensor(id);
    const auto producer = dependencies.producer(id);
    const auto consumers = dependencies.consumers(id);
    if (producer && is_given(tensor.role))
      refuse(
          "node " + graph.node(*producer).name,
          fmt::format("it produces tensor {}, which is given as {}", tensor.name, to_string(tensor.role)),
          "give its result a tensor of its own; an update names what it changes in the attribute `updates`");
    if (!producer && !is_given(tensor.role) && !consumers.empty())
      refuse("node " + graph.node(consumers.front()).name,
             fmt::format("it reads tensor {}, which nothing produces", tensor.name),
             "add the node that makes it, or declare it as input, parameter or state");
  }
}

void check_gradients(const Graph& graph) {
  for (const TensorId id : graph.tensors()) {
    const Tensor& gradient = graph.tensor(id);
    if (!gradient.gradient_of) continue;
    const Tensor& parameter = graph.tensor(*gradient.gradient_of);
    if (parameter.role != TensorRole::parameter)
      refuse("tensor " + gradient.name,
             fmt::format("it is marked as gradient of {}, which is no parameter but {}", parameter.name,
                         to_string(parameter.role)),
             "mark gradients with the parameter that they update");
    if (gradient.shape != parameter.shape)
      refuse("tensor " + gradient.name,
             fmt::format("it has {} elements or another shape than parameter {}, which has {}",
                         gradient.elements(), parameter.name, parameter.elements()),
             "a gradient has the shape of its parameter");
  }
}

/// So that sums of bytes hold.
void check_sizes(const Graph& graph) {
  constexpr double kMostBytes = 1e15;
  for (const TensorId id : graph.tensors()) {
    const Tensor& tensor = graph.tensor(id);
    double bytes = static_cast<double>(size_bytes(tensor.type));
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0)
        refuse("tensor " + tensor.name, fmt::format("a dimension of {}", extent), "give each a size, from 0");
      bytes *= static_cast<double>(extent);
    }
    if (bytes > kMostBytes)
      refuse("tensor " + tensor.name, fmt::format("it has {:g} bytes", bytes),
             "give shapes that a memory can hold");
  }
}

void check_order(const Graph& graph, const Dependencies& dependencies) {
  for (const NodeId id : graph.order())
    for (const NodeId before : dependencies.predecessors(id))
      if (dependencies.position(before) > dependencies.position(id))
        refuse("node " + graph.node(id).name,
               fmt::format("it stands before node {}, which it needs", graph.node(before).name),
               "add nodes in the order in which they run, or take sorted(graph)");
}

void check_times(const Graph& graph) {
  for (const NodeId id : graph.order())
    if (!(graph.node(id).duration_us >= 0))
      refuse("node " + graph.node(id).name, fmt::format("it takes {} us", graph.node(id).duration_us),
             "durations are microseconds, from 0");
}

}  // namespace

void verify(const Graph& graph) {
  check_references(graph);
  check_sizes(graph);
  const Dependencies dependencies(graph);
  check_producers(graph, dependencies);
  (void)topological_order(graph, dependencies);
  check_order(graph, dependencies);
  check_times(graph);
  for (const NodeId id : graph.order()) check_shapes(graph, graph.node(id));
  check_gradients(graph);
}

}  // namespace cohort::graph
