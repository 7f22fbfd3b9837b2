// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/block_list.h>

namespace cohort {

/// The root ends with rank r's `send` at block r of its receive window; the others get nothing. Shape: count
/// -> ranks * count at the root. In place, the root's send is its own block of recv.
struct Gather {
  static constexpr std::string_view kName = "gather";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = true;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::to_root;

  static Extent extent(const Form& form, Rank rank) noexcept {
    return {form.of(rank), rank == form.root ? form.before(form.ranks) : 0};
  }
  static InPlace in_place(const Form& form, Rank rank) noexcept {
    return {0, rank == form.root ? form.before(rank) : 0};
  }
  static Result result(const Form& form, Rank) {
    Result parts;
    for (Rank rank = 0; rank < form.ranks; ++rank)
      parts.push_back({form.before(rank), form.of(rank), rank, rank + 1, 0});
    return parts;
  }
  static double bus_factor(Rank ranks) noexcept { return (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return form.before(form.ranks) - form.of(form.root);
  }
  static Gather of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    const std::size_t own_bytes = of.form(ranks).of(rank) * of.element_bytes;
    return {{WindowId::send, 0, own_bytes}, BlockList(WindowId::recv, of), of.root, of.element_bytes};
  }

  /// In the root's window.
  [[nodiscard]] Slice block(Rank of) const noexcept { return blocks[of]; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return blocks.size_bytes(); }
  [[nodiscard]] Gather part(std::size_t at, std::size_t bytes) const noexcept {
    return {clipped(send, at, bytes), blocks.part(at, bytes), root, element_bytes};
  }

  Slice send;
  BlockList blocks;
  Rank root = 0;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
