// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

namespace cohort {

/// Nobody leaves before everybody has come.
struct Barrier {
  static constexpr std::string_view kName = "barrier";
  static constexpr bool kHasData = false;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = false;
  static constexpr Counts kCounts = Counts::one;
  static constexpr bool kHasInPlace = false;
  static constexpr Flow kFlow = Flow::everywhere;

  static Extent extent(const Form&, Rank) noexcept { return {}; }
  static InPlace in_place(const Form&, Rank) noexcept { return {}; }
  static Result result(const Form&, Rank) { return {}; }
  static double bus_factor(Rank) noexcept { return 0; }
  static std::uint64_t least_traffic(const Form&) noexcept { return 0; }
  static Barrier of(const OperatorArguments&, Rank, Rank) noexcept { return {}; }

  [[nodiscard]] std::size_t size_bytes() const noexcept { return 0; }
  [[nodiscard]] Barrier part(std::size_t, std::size_t) const noexcept { return {}; }
};

}  // namespace cohort
