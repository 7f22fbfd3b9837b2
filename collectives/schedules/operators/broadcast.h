// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

namespace cohort {

/// Every rank ends with the root's `data`. Shape: count on every rank, in one buffer.
struct Broadcast {
  static constexpr std::string_view kName = "broadcast";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = true;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = true;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = false;
  static constexpr Flow kFlow = Flow::from_root;

  static Extent extent(const Form& form, Rank rank) noexcept {
    return {rank == form.root ? form.count : 0, form.count};
  }
  static InPlace in_place(const Form&, Rank) noexcept { return {}; }
  static Result result(const Form& form, Rank) { return {{0, form.count, form.root, form.root + 1, 0}}; }
  static double bus_factor(Rank) noexcept { return 1; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return (form.ranks - std::uint64_t{1}) * form.count;
  }
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
