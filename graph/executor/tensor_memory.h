// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/engine/assert.h>
#include <cohort/graph/passes/memory.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort::graph {

/// The memory of a graph's tensors on one rank. Gradients lie in memory that peers of the host map, so that
/// nothing is copied on the way; where the graph is planned anew, what is given (inputs, parameters, state)
/// stays where it is, by name. Zero to begin with. Lifetime: within the communicator's.
class TensorMemory {
 public:
  explicit TensorMemory(Communicator& communicator) : communicator_(communicator) {}

  /// Lays out what this graph needs. Throws GraphError (memory_overflow) for more than the budget (0: none),
  /// (dist_graph_build) where a given tensor has changed its size.
  void lay_out(const Graph& graph, std::uint64_t budget_bytes = 0);

  [[nodiscard]] std::span<std::byte> bytes(TensorId tensor) const { return places_.at(tensor); }
  template <class T>
  [[nodiscard]] std::span<T> elements(const Graph& graph, TensorId tensor) const {
    COHORT_ASSERT(detail::kDataTypeOf<T> == graph.tensor(tensor).type, "{} has another type",
                  graph.tensor(tensor).name);
    const std::span<std::byte> raw = bytes(tensor);
    return {reinterpret_cast<T*>(raw.data()), raw.size() / sizeof(T)};
  }
  /// Of all types, one behind the other.
  [[nodiscard]] std::span<std::byte> gradients() const {
    return gradients_.span().first(plan_.gradient_bytes);
  }
  [[nodiscard]] const MemoryPlan& plan() const noexcept { return plan_; }

 private:
  Communicator& communicator_;
  MemoryPlan plan_;
  SharedBuffer<std::byte> gradients_;
  std::vector<std::byte> arena_;
  std::map<std::string, std::vector<std::byte>> given_;
  std::map<TensorId, std::vector<std::byte>> offloaded_;
  std::map<TensorId, std::span<std::byte>> places_;
};

}  // namespace cohort::graph
