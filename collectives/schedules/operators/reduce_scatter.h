// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

namespace cohort {

/// Rank r ends with the combination of all ranks' block r of the send window in `recv`. Blocks are `stride`
/// apart. Shape: ranks * count -> count. In place, recv is send's own block.
struct ReduceScatter {
  static constexpr std::string_view kName = "reduce_scatter";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = true;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::everywhere;

  static Extent extent(const Form& form, Rank) noexcept { return {form.ranks * form.count, form.count}; }
  static InPlace in_place(const Form& form, Rank rank) noexcept { return {rank * form.count, 0}; }
  static Result result(const Form& form, Rank rank) {
    return {{0, form.count, 0, form.ranks, rank * form.count}};
  }
  static Stretch kept(const Form& form, Rank rank) noexcept { return {rank * form.count, form.count}; }
  static double bus_factor(Rank ranks) noexcept { return (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return (form.ranks - std::uint64_t{1}) * form.ranks * form.count;
  }
  static ReduceScatter of(const OperatorArguments& of, Rank, Rank) noexcept {
    return {{WindowId::send, 0, of.bytes()},
            {WindowId::recv, 0, of.bytes()},
            of.bytes(),
            of.combine,
            of.element_bytes};
  }

  [[nodiscard]] Slice block(Rank of) const noexcept {
    return {first_block.window, first_block.offset + of * stride, first_block.bytes};
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return recv.bytes; }
  [[nodiscard]] ReduceScatter part(std::size_t at, std::size_t bytes) const noexcept {
    return {first_block.part(at, bytes), recv.part(at, bytes), stride, combine, element_bytes};
  }

  Slice first_block;  ///< for rank 0, in the send window; as large as `recv`
  Slice recv;
  std::size_t stride = 0;
  Combine combine;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
