// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/tensor_memory.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::graph {
namespace {

/// Beyond what operator new aligns to.
std::span<std::byte> aligned(std::vector<std::byte>& memory, std::uint64_t bytes) {
  memory.assign(bytes + kTensorAlignment, std::byte{0});
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t skip = (kTensorAlignment - address % kTensorAlignment) % kTensorAlignment;
  return std::span(memory).subspan(skip, bytes);
}

}  // namespace

void TensorMemory::lay_out(const Graph& graph, std::uint64_t budget_bytes) {
  plan_ = plan_memory(graph);
  check_memory(graph, plan_, budget_bytes);
  const Dependencies dependencies(graph);
  std::map<TensorId, std::span<std::byte>> places;
  const std::span<std::byte> arena = aligned(arena_, plan_.arena_bytes);
  if (gradients_.size() < plan_.gradient_bytes)
    gradients_ = communicator_.allocate<std::byte>(plan_.gradient_bytes);
  std::ranges::fill(gradients_.span(), std::byte{0});
  offloaded_.clear();
  for (const TensorId id : graph.tensors()) {
    const Tensor& tensor = graph.tensor(id);
    if (const auto found = plan_.gradient_offsets.find(id); found != plan_.gradient_offsets.end())
      places[id] = gradients_.span().subspan(found->second, tensor.bytes());
    else if (const auto in_arena = plan_.arena_offsets.find(id); in_arena != plan_.arena_offsets.end())
      places[id] = arena.subspan(in_arena->second, tensor.bytes());
    else if (dependencies.producer(id))
      places[id] = std::span(offloaded_[id] = std::vector<std::byte>(tensor.bytes()));
    else {
      std::vector<std::byte>& given = given_[tensor.name];
      if (given.empty()) given.resize(tensor.bytes());
      if (given.size() != tensor.bytes())
        throw GraphError(ErrorCode::dist_graph_build, "tensor " + tensor.name,
                         fmt::format("it had {} bytes and has {} now", given.size(), tensor.bytes()),
                         "make a new executor for another model");
      places[id] = std::span(given);
    }
  }
  places_ = std::move(places);
}

}  // namespace cohort::graph
