// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

namespace cohort {

/// Every rank ends with the combination of all ranks' `send` in `recv`. Shape: count -> count. In place, send
/// and recv are one.
struct AllReduce {
  static constexpr std::string_view kName = "all_reduce";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = true;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::everywhere;

  static Extent extent(const Form& form, Rank) noexcept { return {form.count, form.count}; }
  static InPlace in_place(const Form&, Rank) noexcept { return {}; }
  static Result result(const Form& form, Rank) { return {{0, form.count, 0, form.ranks, 0}}; }
  static double bus_factor(Rank ranks) noexcept { return 2 * (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return 2 * (form.ranks - std::uint64_t{1}) * form.count;
  }
  static AllReduce of(const OperatorArguments& of, Rank, Rank) noexcept {
    return {{WindowId::send, 0, of.bytes()}, {WindowId::recv, 0, of.bytes()}, of.combine, of.element_bytes};
  }

  [[nodiscard]] std::size_t size_bytes() const noexcept { return send.bytes; }
  [[nodiscard]] AllReduce part(std::size_t at, std::size_t bytes) const noexcept {
    return {send.part(at, bytes), recv.part(at, bytes), combine, element_bytes};
  }

  Slice send;
  Slice recv;
  Combine combine;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
