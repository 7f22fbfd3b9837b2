// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>
#include <cohort/graph/executor/tensor_memory.h>
#include <cohort/graph/graph.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace cohort::graph {

/// A node that runs, with the memory of its tensors. Valid while the kernel runs.
class NodeCall {
 public:
  NodeCall(const Graph& graph, const Node& node, const TensorMemory& memory) noexcept
      : graph_(graph), node_(node), memory_(memory) {}

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const Node& node() const noexcept { return node_; }
  /// Elements of the tensor's type (asserted).
  template <class T>
  [[nodiscard]] std::span<T> input(std::size_t index) const {
    return memory_.elements<T>(graph_, node_.inputs.at(index));
  }
  template <class T>
  [[nodiscard]] std::span<T> output(std::size_t index) const {
    return memory_.elements<T>(graph_, node_.outputs.at(index));
  }
  [[nodiscard]] std::span<std::byte> input_bytes(std::size_t index) const {
    return memory_.bytes(node_.inputs.at(index));
  }
  [[nodiscard]] std::span<std::byte> output_bytes(std::size_t index) const {
    return memory_.bytes(node_.outputs.at(index));
  }

 private:
  const Graph& graph_;
  const Node& node_;
  const TensorMemory& memory_;
};

/// A plain function, which runs on a thread of the compute pool.
using Kernel = std::function<void(const NodeCall&)>;
/// A coroutine, which runs on the engine: for what waits instead of computing.
using AsyncKernel = std::function<Task<>(const NodeCall&)>;
/// Elementwise on float32: out[i] of operands[k][i]; all spans are as long as `out`. Fused nodes run several
/// of these block by block.
using ElementKernel =
    std::function<void(std::span<float> out, std::span<const std::span<const float>> operands)>;

/// What ops do. There are, to begin with: add, sub, mul, neg, relu and relu_grad (of a gradient and an input)
/// of float32, fused, split, join, clip, offload and fetch. What is given later replaces what was there.
class Kernels {
 public:
  Kernels();

  void set(const std::string& op, Kernel kernel);
  void set_async(const std::string& op, AsyncKernel kernel);
  void set_elementwise(const std::string& op, ElementKernel kernel);

  /// Null: not there.
  [[nodiscard]] const Kernel* find(const std::string& op) const;
  [[nodiscard]] const AsyncKernel* find_async(const std::string& op) const;
  [[nodiscard]] const ElementKernel* find_elementwise(const std::string& op) const;
  /// A node of elementwise operations, as fuse_kernels() makes it, on float32.
  void run_fused(const NodeCall& call) const;
  /// Throws GraphError (dist_graph_build) that names the first compute node without a kernel.
  void check(const Graph& graph) const;

 private:
  std::map<std::string, Kernel> plain_;
  std::map<std::string, AsyncKernel> async_;
  std::map<std::string, ElementKernel> elementwise_;
};

}  // namespace cohort::graph
