// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstddef>

namespace cohort {

/// As many logical processors as a cpu_set_t has room for.
inline constexpr std::size_t kMostCores = 1024;

/// Logical processors of a host, by number.
using CoreSet = std::bitset<kMostCores>;

}  // namespace cohort
