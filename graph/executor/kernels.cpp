// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/kernels.h>

#include <cohort/graph/passes/fuse_kernels.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace cohort::graph {
namespace {

using Operands = std::span<const std::span<const float>>;

/// So many floats of each operand and of two results fit a core's first cache.
constexpr std::size_t kBlock = 2048;

template <class Function>
ElementKernel unary(Function function) {
  return [function](std::span<float> out, Operands operands) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = function(operands[0][i]);
  };
}

template <class Function>
ElementKernel binary(Function function) {
  return [function](std::span<float> out, Operands operands) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = function(operands[0][i], operands[1][i]);
  };
}

/// Also of more than two, as the parts of a shared parameter's gradient.
void add_all(std::span<float> out, Operands operands) {
  std::ranges::copy(operands[0], out.begin());
  for (const std::span<const float> operand : operands.subspan(1))
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += operand[i];
}

void run_whole(const NodeCall& call, const ElementKernel& kernel) {
  std::vector<std::span<const float>> operands;
  for (std::size_t i = 0; i < call.node().inputs.size(); ++i) operands.push_back(call.input<float>(i));
  kernel(call.output<float>(0), operands);
}

/// As clip_gradients() makes it: gradients, then loss scale, overflow and norm.
void clip(const NodeCall& call) {
  const std::size_t gradients = call.node().outputs.size();
  const float given = call.input<float>(gradients)[0];
  const double scale = given == 0 ? 1 : given;
  double square = 0;
  for (std::size_t i = 0; i < gradients; ++i)
    for (const float value : call.input<float>(i)) square += static_cast<double>(value) * value;
  const double norm = std::sqrt(square) / scale;
  const bool is_finite = std::isfinite(norm);
  call.input<float>(gradients + 1)[0] = is_finite ? 0.0F : 1.0F;
  call.input<float>(gradients + 2)[0] = static_cast<float>(norm);
  const double most = call.node().attribute_or<double>("max_norm", 0);
  const double factor = (most > 0 && norm > most ? most / norm : 1) / scale;
  for (std::size_t i = 0; i < gradients; ++i)
    for (float& value : call.output<float>(i)) value = is_finite ? static_cast<float>(value * factor) : 0.0F;
}

void copy_first(const NodeCall& call) {
  const std::span<std::byte> from = call.input_bytes(0);
  if (!from.empty()) std::memcpy(call.output_bytes(0).data(), from.data(), from.size());
}

}  // namespace

Kernels::Kernels() {
  set_elementwise("add", add_all);
  set_elementwise("sub", binary([](float a, float b) { return a - b; }));
  set_elementwise("mul", binary([](float a, float b) { return a * b; }));
  set_elementwise("neg", unary([](float a) { return -a; }));
  set_elementwise("relu", unary([](float a) { return a > 0 ? a : 0; }));
  set_elementwise("relu_grad", binary([](float gradient, float input) { return input > 0 ? gradient : 0; }));
  for (const char* view : {"split", "join"}) set(view, [](const NodeCall&) {});
  for (const char* copy : {"offload", "fetch"}) set(copy, copy_first);
  set("clip", clip);
}

void Kernels::set(const std::string& op, Kernel kernel) {
  async_.erase(op);
  plain_[op] = std::move(kernel);
}

void Kernels::set_async(const std::string& op, AsyncKernel kernel) {
  plain_.erase(op);
  async_[op] = std::move(kernel);
}

void Kernels::set_elementwise(const std::string& op, ElementKernel kernel) {
  elementwise_[op] = kernel;
  set(op, [kernel = std::move(kernel)](const NodeCall& call) { run_whole(call, kernel); });
}

const Kernel* Kernels::find(const std::string& op) const {
  const auto found = plain_.find(op);
  return found == plain_.end() ? nullptr : &found->second;
}
const AsyncKernel* Kernels::find_async(const std::string& op) const {
  const auto found = async_.find(op);
  return found == async_.end() ? nullptr : &found->second;
}
const ElementKernel* Kernels::find_elementwise(const std::string& op) const {
  const auto found = elementwise_.find(op);
  return found == elementwise_.end() ? nullptr : &found->second;
}

/// Block by block, so that what one operation leaves is in the cache for the next.
void Kernels::run_fused(const NodeCall& call) const {
  const std::vector<FusedStep> steps = steps_of(call.node());
  const std::span<float> out = call.output<float>(0);
  std::array<std::array<float, kBlock>, 2> between;
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    const std::size_t size = std::min(kBlock, out.size() - begin);
    std::span<const float> previous;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::vector<std::span<const float>> operands;
      for (const std::int64_t operand : steps[i].operands)
        operands.push_back(operand == kPrevious
                               ? previous
                               : call.input<float>(static_cast<std::size_t>(operand)).subspan(begin, size));
      const bool is_last = i + 1 == steps.size();
      const std::span<float> result =
          is_last ? out.subspan(begin, size) : std::span(between[i % 2]).first(size);
      (*find_elementwise(steps[i].op))(result, operands);
      previous = result;
    }
  }
}

void Kernels::check(const Graph& graph) const {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.kind != NodeKind::compute) continue;
    if (node.op == "fused" && find(node.op) == nullptr && find_async(node.op) == nullptr) {
      for (const FusedStep& step : steps_of(node))
        if (find_elementwise(step.op) == nullptr)
          throw GraphError(ErrorCode::dist_graph_build, "node " + node.name,
                           fmt::format("there is no elementwise kernel for op {}", step.op),
                           "give it to Kernels::set_elementwise(), or do not fuse");
    } else if (find(node.op) == nullptr && find_async(node.op) == nullptr) {
      throw GraphError(ErrorCode::dist_graph_build, "node " + node.name,
                       fmt::format("there is no kernel for op {}", node.op), "give it to Kernels::set()");
    }
  }
}

}  // namespace cohort::graph
