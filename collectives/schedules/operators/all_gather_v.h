// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/block_list.h>

namespace cohort {

/// Every rank ends with rank r's `send` at block r of the receive window. Shape: counts[rank] -> sum of
/// counts. In place, send is recv's own block.
struct AllGatherV {
  static constexpr std::string_view kName = "all_gather_v";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::ranks;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::everywhere;

  static Extent extent(const Form& form, Rank rank) noexcept {
    return {form.of(rank), form.before(form.ranks)};
  }
  static InPlace in_place(const Form& form, Rank rank) noexcept { return {0, form.before(rank)}; }
  static Result result(const Form& form, Rank) {
    Result parts;
    for (Rank rank = 0; rank < form.ranks; ++rank)
      parts.push_back({form.before(rank), form.of(rank), rank, rank + 1, 0});
    return parts;
  }
  static double bus_factor(Rank ranks) noexcept { return (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return (form.ranks - std::uint64_t{1}) * form.before(form.ranks);
  }
  static AllGatherV of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    const std::size_t own_bytes = of.form(ranks).of(rank) * of.element_bytes;
    return {{WindowId::send, 0, own_bytes}, BlockList(WindowId::recv, of), of.element_bytes};
  }

  [[nodiscard]] Slice block(Rank of) const noexcept { return blocks[of]; }
  /// What that rank gives, in its own window.
  [[nodiscard]] Slice at_giver(Rank giver) const noexcept {
    return {send.window, send.offset, block(giver).bytes};
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return blocks.size_bytes(); }
  /// Whether blocks lie side by side, with nothing between them.
  [[nodiscard]] bool is_whole() const noexcept { return blocks.is_whole(); }
  [[nodiscard]] AllGatherV part(std::size_t at, std::size_t bytes) const noexcept {
    return {clipped(send, at, bytes), blocks.part(at, bytes), element_bytes};
  }

  Slice send;
  BlockList blocks;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
