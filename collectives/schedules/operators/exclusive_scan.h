// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/scan.h>

namespace cohort {

/// Rank r ends with the combination of the `send` of ranks 0 to r - 1; rank 0's `recv` stays as it is. Else
/// as Scan.
struct ExclusiveScan : Scan {
  static constexpr std::string_view kName = "exclusive_scan";

  static Result result(const Form& form, Rank rank) {
    if (rank == 0) return {};
    return {{0, form.count, 0, rank, 0}};
  }
  static ExclusiveScan of(const OperatorArguments& of, Rank rank, Rank) noexcept {
    return {over(of, rank, true)};
  }
  [[nodiscard]] ExclusiveScan part(std::size_t at, std::size_t bytes) const noexcept {
    return {Scan::part(at, bytes)};
  }
};

}  // namespace cohort
