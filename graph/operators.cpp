// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/operators.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

namespace cohort::graph {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::array<std::string_view, 21> kElementwise = {
    "add",  "sub",       "mul",  "div",       "neg",     "relu",      "relu_grad",
    "gelu", "gelu_grad", "silu", "silu_grad", "tanh",    "tanh_grad", "sigmoid",
    "exp",  "log",       "sqrt", "scale",     "dropout", "cast",      "sigmoid_grad"};
constexpr std::array<std::string_view, 5> kCollectives = {"all_reduce", "reduce_scatter", "all_gather",
                                                          "reduce", "broadcast"};

[[noreturn]] void refuse(const Node& node, const std::string& cause, const std::string& advice) {
  throw GraphError(ErrorCode::dist_graph_build, "node " + node.name, cause, advice);
}

std::string text_of(const Tensor& tensor) {
  return fmt::format("{} {}[{}]", tensor.name, cohort::to_string(tensor.type), fmt::join(tensor.shape, ", "));
}

void need(const Graph&, const Node& node, std::size_t inputs, std::size_t outputs) {
  if (node.inputs.size() < inputs || node.outputs.size() < outputs)
    refuse(node,
           fmt::format("{} with {} inputs and {} outputs", node.op, node.inputs.size(), node.outputs.size()),
           fmt::format("give it at least {} and {}", inputs, outputs));
}

/// Those with one element go with any shape.
void check_elementwise(const Graph& graph, const Node& node) {
  need(graph, node, 1, 1);
  const Tensor& out = graph.tensor(node.outputs.front());
  for (const TensorId id : node.inputs) {
    const Tensor& in = graph.tensor(id);
    const bool has_other_type = in.type != out.type && node.op != "cast";
    if ((in.shape != out.shape && in.elements() != 1) || has_other_type)
      refuse(node, fmt::format("{} of {} gives {}", node.op, text_of(in), text_of(out)),
             "element by element the shapes and types are the same");
  }
}

void check_matmul(const Graph& graph, const Node& node) {
  need(graph, node, 2, 1);
  const Tensor& a = graph.tensor(node.inputs[0]);
  const Tensor& b = graph.tensor(node.inputs[1]);
  const Tensor& out = graph.tensor(node.outputs.front());
  Shape left = a.shape;
  Shape right = b.shape;
  bool fits = left.size() >= 2 && right.size() == 2;
  if (fits) {
    if (node.attribute_or("transpose_a", false)) std::swap(left.end()[-1], left.end()[-2]);
    if (node.attribute_or("transpose_b", false)) std::swap(right[0], right[1]);
    fits = left.back() == right[0];
    left.back() = right[1];
  }
  if (!fits || out.shape != left)
    refuse(node, fmt::format("matmul of {} and {} gives {}", text_of(a), text_of(b), text_of(out)),
           "[..., m, k] by [k, n] gives [..., m, n]; the attributes transpose_a and transpose_b turn them");
}

void check_same_elements(const Graph& graph, const Node& node) {
  need(graph, node, 1, 1);
  const Tensor& in = graph.tensor(node.inputs.front());
  const Tensor& out = graph.tensor(node.outputs.front());
  if (in.elements() != out.elements() || in.type != out.type)
    refuse(node, fmt::format("{} of {} gives {}", node.op, text_of(in), text_of(out)),
           "it keeps the number of elements and their type");
}

/// What a collective takes and leaves, one for one; between reduce_scatter and all_gather lie shares.
void check_collective(const Graph& graph, const Node& node) {
  need(graph, node, 1, 1);
  if (node.inputs.size() != node.outputs.size())
    refuse(node, fmt::format("{} inputs and {} outputs", node.inputs.size(), node.outputs.size()),
           "a collective has an output for each input");
  if (node.op == "reduce_scatter" || node.op == "all_gather") return;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Tensor& in = graph.tensor(node.inputs[i]);
    const Tensor& out = graph.tensor(node.outputs[i]);
    if (in.shape != out.shape || in.type != out.type)
      refuse(node, fmt::format("{} of {} gives {}", node.op, text_of(in), text_of(out)),
             "it keeps shapes and types");
  }
}

}  // namespace

bool is_elementwise(std::string_view op) noexcept {
  return std::ranges::find(kElementwise, op) != kElementwise.end() || op == "fused";
}
bool is_collective(std::string_view op) noexcept {
  return std::ranges::find(kCollectives, op) != kCollectives.end();
}

void check_shapes(const Graph& graph, const Node& node) {
  if (node.kind == NodeKind::collective) {
    if (!is_collective(node.op))
      refuse(node, fmt::format("{} is no collective", node.op),
             fmt::format("there are {}", fmt::join(kCollectives, ", ")));
    check_collective(graph, node);
  } else if (is_elementwise(node.op)) {
    check_elementwise(graph, node);
  } else if (node.op == "matmul") {
    check_matmul(graph, node);
  } else if (node.op == "transpose" || node.op == "reshape") {
    check_same_elements(graph, node);
  }
}

}  // namespace cohort::graph
