// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/block_list.h>

namespace cohort {

/// Rank r ends with block r of the root's send window in `recv`. Shape: ranks * count at the root -> count.
/// In place, the root's recv is its own block of send.
struct Scatter {
  static constexpr std::string_view kName = "scatter";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = true;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::from_root;

  static Extent extent(const Form& form, Rank rank) noexcept {
    return {rank == form.root ? form.before(form.ranks) : 0, form.of(rank)};
  }
  static InPlace in_place(const Form& form, Rank rank) noexcept {
    return {rank == form.root ? form.before(rank) : 0, 0};
  }
  static Result result(const Form& form, Rank rank) {
    return {{0, form.of(rank), form.root, form.root + 1, form.before(rank)}};
  }
  static Stretch kept(const Form& form, Rank rank) noexcept {
    return rank == form.root ? Stretch{form.before(rank), form.of(rank)} : Stretch{};
  }
  static double bus_factor(Rank ranks) noexcept { return (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return form.before(form.ranks) - form.of(form.root);
  }
  static Scatter of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    const std::size_t own_bytes = of.form(ranks).of(rank) * of.element_bytes;
    return {BlockList(WindowId::send, of), {WindowId::recv, 0, own_bytes}, of.root, of.element_bytes};
  }

  /// In the root's window.
  [[nodiscard]] Slice block(Rank of) const noexcept { return blocks[of]; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return blocks.size_bytes(); }
  [[nodiscard]] Scatter part(std::size_t at, std::size_t bytes) const noexcept {
    return {blocks.part(at, bytes), clipped(recv, at, bytes), root, element_bytes};
  }

  BlockList blocks;
  Slice recv;
  Rank root = 0;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
