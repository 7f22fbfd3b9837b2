// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/reduce_op.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace cohort {

/// When a combination has the same bits again. Each level promises what those before it do.
///
/// It narrows the choice of algorithms and nothing else, and only where an order shows: sums and products of
/// floats. What has one result in whatever order it is combined, as all integers and every max and min, runs
/// by any algorithm at every level.
enum class Determinism : std::uint8_t {
  D0,  ///< not promised: what is fastest by what was measured, which may be another algorithm tomorrow
  D1,  ///< in every run of the same ranks on the same hosts: nothing that was measured decides
  D2,  ///< wherever the ranks are, over whatever transport, by whatever algorithm: combined by rank
  D3,  ///< for each element also whatever stands beside it: size, slicing, place in the buffer
};

/// "D0" to "D3"; "unknown" for a number that is none, as a damaged signature may hold.
[[nodiscard]] std::string_view to_string(Determinism level) noexcept;

/// The level of exactly that name, in capitals or not.
[[nodiscard]] std::optional<Determinism> parse_determinism(std::string_view name) noexcept;

/// In which order an algorithm combines: what it says of itself, to which the checker holds it.
enum class ReductionOrder : std::uint8_t {
  fixed,            ///< some order, that of the schedule: the same in every run of the same case
  by_rank,          ///< ((0 + 1) + 2) + ...; what is stored on the way is rounded to the type
  by_rank_at_once,  ///< the same in one step, averages as well, and so rounded once
};
inline constexpr std::size_t kReductionOrders = 3;
[[nodiscard]] std::string_view to_string(ReductionOrder order) noexcept;

/// Whether the bits of a result depend on the order in which these are combined.
[[nodiscard]] inline bool shows_order(DataType type, ReduceOp op) noexcept {
  const bool rounds =
      op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::scaled_sum || op == ReduceOp::prod;
  return rounds && kind_of(type) == DataKind::floating;
}

/// The least that gives the level, for elements of a type whose combination shows its order. Partial results
/// of small floats are rounded where they are stored, those of float32 and float64 are what they are in
/// registers.
[[nodiscard]] inline ReductionOrder order_for(Determinism level, DataType type) noexcept {
  if (level < Determinism::D2) return ReductionOrder::fixed;
  return size_bytes(type) < sizeof(float) ? ReductionOrder::by_rank_at_once : ReductionOrder::by_rank;
}

}  // namespace cohort
