// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cohort {

/// Number `index` of SplitMix64 from seed 0, from 1 on (Steele et al. 2014): like random bits, the same on
/// every machine.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t index) noexcept {
  std::uint64_t mixed = index * 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
  return mixed ^ mixed >> 31;
}

}  // namespace cohort
