// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/block_list.h>

namespace cohort {

/// Rank r ends with the combination of all ranks' block r of the send window in `recv`. Shape: sum of counts
/// -> counts[rank]. In place, recv is send's own block.
struct ReduceScatterV {
  static constexpr std::string_view kName = "reduce_scatter_v";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = true;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::ranks;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::everywhere;

  static Extent extent(const Form& form, Rank rank) noexcept {
    return {form.before(form.ranks), form.of(rank)};
  }
  static InPlace in_place(const Form& form, Rank rank) noexcept { return {form.before(rank), 0}; }
  static Result result(const Form& form, Rank rank) {
    return {{0, form.of(rank), 0, form.ranks, form.before(rank)}};
  }
  static Stretch kept(const Form& form, Rank rank) noexcept { return {form.before(rank), form.of(rank)}; }
  static double bus_factor(Rank ranks) noexcept { return (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return (form.ranks - std::uint64_t{1}) * form.before(form.ranks);
  }
  static ReduceScatterV of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    const std::size_t own_bytes = of.form(ranks).of(rank) * of.element_bytes;
    return {BlockList(WindowId::send, of), {WindowId::recv, 0, own_bytes}, of.combine, of.element_bytes};
  }

  [[nodiscard]] Slice block(Rank of) const noexcept { return blocks[of]; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return blocks.size_bytes(); }
  [[nodiscard]] ReduceScatterV part(std::size_t at, std::size_t bytes) const noexcept {
    return {blocks.part(at, bytes), clipped(recv, at, bytes), combine, element_bytes};
  }

  BlockList blocks;
  Slice recv;
  Combine combine;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
