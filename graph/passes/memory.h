// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/dependencies.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cohort::graph {

/// From when to when a tensor is needed: places in the graph's order, both included.
struct Lifetime {
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Where each tensor lies that the graph makes.
///
/// Gradients that travel lie side by side, in the order of the collectives and one region for each type, for
/// the whole step: a bucket is a range of that memory, reduced where it lies, and nothing is copied. Results
/// of collectives, of `split` and of `join` are the same memory as what they are made of. All else shares an
/// arena, in which tensors that are not needed at the same time may have the same bytes.
struct MemoryPlan {
  std::map<TensorId, std::uint64_t> arena_offsets;
  std::map<TensorId, std::uint64_t> gradient_offsets;  ///< from the beginning of all gradients
  std::uint64_t arena_bytes = 0;
  std::uint64_t gradient_bytes = 0;
  std::uint64_t given_bytes = 0;    ///< inputs, parameters and state
  std::uint64_t live_bytes = 0;     ///< of the arena, at the worst moment: no plan needs less
  std::optional<NodeId> peak_node;  ///< at which that is
  std::uint64_t bytes_without_reuse = 0;

  [[nodiscard]] std::uint64_t peak_bytes() const noexcept {
    return arena_bytes + gradient_bytes + given_bytes;
  }
};

/// Every tensor aligned to so many bytes, but for gradients inside of a region.
inline constexpr std::uint64_t kTensorAlignment = 64;

/// With `reuses` false each tensor has bytes of its own.
[[nodiscard]] MemoryPlan plan_memory(const Graph& graph, bool reuses = true);

/// Throws GraphError (memory_overflow) where the plan needs more than `budget_bytes`: what it needs, at which
/// node, and what would fit.
void check_memory(const Graph& graph, const MemoryPlan& plan, std::uint64_t budget_bytes);

/// Of tensors that the graph makes. The loss is needed to the end.
[[nodiscard]] std::map<TensorId, Lifetime> lifetimes_of(const Graph& graph, const Dependencies& dependencies);

}  // namespace cohort::graph
