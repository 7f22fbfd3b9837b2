// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/operators/description.h>

namespace cohort {

/// Every rank ends with the root's `data`. Shape: count on every rank, in one buffer.
struct Broadcast {
  static constexpr std::string_view kName = "broadcast";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = true;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = true;

  static Extent extent(Rank, Rank root, Rank rank) noexcept { return {rank == root ? 1U : 0U, 1}; }
  static InPlace in_place(std::size_t, Rank) noexcept { return {}; }
  static Result result(const Form& form, Rank) { return {{0, form.count, form.root, form.root + 1, 0}}; }
  static double bus_factor(Rank) noexcept { return 1; }
  static std::uint64_t least_traffic(Rank ranks) noexcept { return ranks - 1; }
  static Broadcast of(const OperatorArguments& of, Rank, Rank) noexcept {
    return {{WindowId::recv, 0, of.bytes()}, of.root, of.element_bytes};
  }

  [[nodiscard]] std::size_t size_bytes() const noexcept { return data.bytes; }
  [[nodiscard]] Broadcast part(std::size_t at, std::size_t bytes) const noexcept {
    return {data.part(at, bytes), root, element_bytes};
  }

  Slice data;
  Rank root = 0;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
