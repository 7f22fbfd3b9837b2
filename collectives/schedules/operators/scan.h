// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

namespace cohort {

/// Rank r ends with the combination of the `send` of ranks 0 to r, in rank order, in `recv`. Averages are
/// over as many ranks as are combined. Shape: count -> count. In place, send and recv are one.
struct Scan {
  static constexpr std::string_view kName = "scan";
  static constexpr bool kHasData = true;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = true;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = true;
  static constexpr Flow kFlow = Flow::upwards;

  static Extent extent(const Form& form, Rank) noexcept { return {form.count, form.count}; }
  static InPlace in_place(const Form&, Rank) noexcept { return {}; }
  static Result result(const Form& form, Rank rank) { return {{0, form.count, 0, rank + 1, 0}}; }
  static double bus_factor(Rank) noexcept { return 1; }
  static std::uint64_t least_traffic(const Form& form) noexcept {
    return (form.ranks - std::uint64_t{1}) * form.count;
  }
  static Scan of(const OperatorArguments& of, Rank rank, Rank) noexcept { return over(of, rank + 1, false); }

  /// The sum as it is combined, and the average that it becomes on this rank.
  [[nodiscard]] Combine sum() const noexcept {
    Combine plain = combine;
    plain.average_over = 0;
    return plain;
  }
  /// What makes that rank's result of its contributions.
  [[nodiscard]] Combine combine_of(Rank rank) const noexcept {
    Combine of = combine;
    of.average_over = averages && combined_by(rank) > 1 ? combined_by(rank) : 0;
    return of;
  }
  /// How many ranks' inputs that rank ends with.
  [[nodiscard]] Rank combined_by(Rank rank) const noexcept { return is_exclusive ? rank : rank + 1; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return send.bytes; }
  [[nodiscard]] Scan part(std::size_t at, std::size_t bytes) const noexcept {
    return {send.part(at, bytes), recv.part(at, bytes), combine, is_exclusive, averages, element_bytes};
  }

  Slice send;
  Slice recv;
  Combine combine;  ///< averages over the ranks that this rank's result combines
  bool is_exclusive = false;
  bool averages = false;
  std::size_t element_bytes = 1;

 protected:
  static Scan over(const OperatorArguments& of, Rank combined, bool is_exclusive) noexcept {
    Combine combine = of.combine;
    if (combine.average_over != 0) combine.average_over = combined > 1 ? combined : 0;
    return {{WindowId::send, 0, of.bytes()},
            {WindowId::recv, 0, of.bytes()},
            combine,
            is_exclusive,
            of.combine.average_over != 0,
            of.element_bytes};
  }
};

}  // namespace cohort
