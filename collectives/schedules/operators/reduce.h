// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

namespace cohort {

/// The root ends with the combination of all ranks' `send` in `recv`; the others get nothing. Shape: count ->
/// count at the root. In place, the root's send and recv are one.
struct Reduce {
  static constexpr std::string_view kName = "reduce";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = true;
  static constexpr bool kCombines = true;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::to_root;

  static Extent extent(const Form& form, Rank rank) noexcept {
    return {form.count, rank == form.root ? form.count : 0};
  }
  static InPlace in_place(const Form&, Rank) noexcept { return {}; }
  static Result result(const Form& form, Rank) { return {{0, form.count, 0, form.ranks, 0}}; }
  static double bus_factor(Rank) noexcept { return 1; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return (form.ranks - std::uint64_t{1}) * form.count;
  }
  static Reduce of(const OperatorArguments& of, Rank rank, Rank) noexcept {
    return {{WindowId::send, 0, of.bytes()},
            {WindowId::recv, 0, rank == of.root ? of.bytes() : 0},
            of.combine,
            of.root,
            of.element_bytes};
  }

  /// Where the result lies in the root's window, for whoever stores into it or names a part of it.
  [[nodiscard]] Slice at_root() const noexcept { return {WindowId::recv, send.offset, send.bytes}; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return send.bytes; }
  [[nodiscard]] Reduce part(std::size_t at, std::size_t bytes) const noexcept {
    return {send.part(at, bytes), recv.empty() ? recv : recv.part(at, bytes), combine, root, element_bytes};
  }

  Slice send;
  Slice recv;  ///< empty but at the root
  Combine combine;
  Rank root = 0;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
