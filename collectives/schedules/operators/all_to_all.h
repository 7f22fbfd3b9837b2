// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/block_list.h>

namespace cohort {

/// Rank r ends with block r of rank s's send window at block s of its receive window, for all s. Shape: ranks
/// * count -> ranks * count. Never in place: what comes would overwrite what has still to go.
struct AllToAll {
  static constexpr std::string_view kName = "all_to_all";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = false;
  static constexpr Flow kFlow = Flow::everywhere;

  static Extent extent(const Form& form, Rank rank) noexcept {
    return {form.given_before(rank, form.ranks), form.taken_before(rank, form.ranks)};
  }
  static InPlace in_place(const Form&, Rank) noexcept { return {}; }
  static Result result(const Form& form, Rank rank) {
    Result parts;
    for (Rank from = 0; from < form.ranks; ++from)
      parts.push_back({form.taken_before(rank, from), form.between(from, rank), from, from + 1,
                       form.given_before(from, rank)});
    return parts;
  }
  static Stretch kept(const Form& form, Rank rank) noexcept {
    return {form.given_before(rank, rank), form.between(rank, rank)};
  }
  static double bus_factor(Rank ranks) noexcept { return (ranks - 1.0) / ranks; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    std::uint64_t sum = 0;
    for (Rank rank = 0; rank < form.ranks; ++rank)
      sum += form.given_before(rank, form.ranks) - form.between(rank, rank);
    return sum;
  }
  static AllToAll of(const OperatorArguments& of, Rank rank, Rank ranks) noexcept {
    return {of.form(ranks), rank, of.bytes(), 0, of.element_bytes};
  }

  /// What this rank gives to that one.
  [[nodiscard]] Slice to(Rank taker) const noexcept { return given(self, taker); }
  /// What that rank gives to this one, in the giver's window.
  [[nodiscard]] Slice at_giver(Rank giver) const noexcept { return given(giver, self); }
  /// Where it comes to lie here.
  [[nodiscard]] Slice from(Rank giver) const noexcept {
    const Slice whole{WindowId::recv, form.taken_before(self, giver) * element_bytes,
                      form.between(giver, self) * element_bytes};
    return clipped(whole, offset, part_bytes);
  }
  /// How much of this part that rank gives to that one.
  [[nodiscard]] std::size_t bytes_between(Rank giver, Rank taker) const noexcept {
    return clipped({WindowId::send, 0, form.between(giver, taker) * element_bytes}, offset, part_bytes).bytes;
  }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return part_bytes; }
  [[nodiscard]] AllToAll part(std::size_t at, std::size_t bytes) const noexcept {
    return {form, self, bytes, offset + at, element_bytes};
  }

  Form form;
  Rank self = 0;
  std::size_t part_bytes = 0;  ///< of the largest block
  std::size_t offset = 0;      ///< of the part in each block
  std::size_t element_bytes = 1;

 private:
  [[nodiscard]] Slice given(Rank giver, Rank taker) const noexcept {
    const Slice whole{WindowId::send, form.given_before(giver, taker) * element_bytes,
                      form.between(giver, taker) * element_bytes};
    return clipped(whole, offset, part_bytes);
  }
};

}  // namespace cohort
