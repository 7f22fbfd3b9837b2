// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/operators/description.h>

namespace cohort {

/// Nobody leaves before everybody has come.
struct Barrier {
  static constexpr std::string_view kName = "barrier";
  static constexpr bool kHasData = false;
  static constexpr bool kHasRoot = false;
  static constexpr bool kCombines = false;
  static constexpr bool kHasOneBuffer = false;

  static Extent extent(Rank, Rank, Rank) noexcept { return {}; }
  static InPlace in_place(std::size_t, Rank) noexcept { return {}; }
  static Result result(const Form&, Rank) { return {}; }
  static double bus_factor(Rank) noexcept { return 0; }
  static std::uint64_t least_traffic(Rank) noexcept { return 0; }
  static Barrier of(const OperatorArguments&, Rank, Rank) noexcept { return {}; }

  [[nodiscard]] std::size_t size_bytes() const noexcept { return 0; }
  [[nodiscard]] Barrier part(std::size_t, std::size_t) const noexcept { return {}; }
};

}  // namespace cohort
