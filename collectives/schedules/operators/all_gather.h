// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

namespace cohort {

/// Every rank ends with rank r's `send` at block r of the receive window. Blocks are `stride` apart. Shape:
/// count -> ranks * count. In place, send is recv's own block.
struct AllGather {
  static constexpr std::string_view kName = "all_gather";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::everywhere;

  static Extent extent(const Form& form, Rank) noexcept { return {form.count, form.ranks * form.count}; }
  static InPlace in_place(const Form& form, Rank rank) noexcept { return {0, rank * form.count}; }
  static Result result(const Form& form, Rank) {
    Result parts;
    for (Rank rank = 0; rank < form.ranks; ++rank)
      parts.push_back({rank * form.count, form.count, rank, rank + 1, 0});
    return parts;
  }
  static double bus_factor(Rank ranks) noexcept { return (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return (form.ranks - std::uint64_t{1}) * form.ranks * form.count;
  }
  static AllGather of(const OperatorArguments& of, Rank, Rank) noexcept {
    return {{WindowId::send, 0, of.bytes()}, {WindowId::recv, 0, of.bytes()}, of.bytes(), of.element_bytes};
  }

  [[nodiscard]] Slice block(Rank of) const noexcept {
    return {first_block.window, first_block.offset + of * stride, first_block.bytes};
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return send.bytes; }
  /// Whether blocks lie side by side, with nothing between them.
  [[nodiscard]] bool is_whole() const noexcept { return stride == send.bytes; }
  [[nodiscard]] AllGather part(std::size_t at, std::size_t bytes) const noexcept {
    return {send.part(at, bytes), first_block.part(at, bytes), stride, element_bytes};
  }

  Slice send;
  Slice first_block;  ///< rank 0's, in the recv window; as large as `send`
  std::size_t stride = 0;
  std::size_t element_bytes = 1;
};

}  // namespace cohort
