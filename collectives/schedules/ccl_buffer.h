// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <algorithm>
#include <cstddef>

namespace cohort {

/// Of each CCL buffer, where nothing says otherwise.
inline constexpr std::size_t kDefaultBufferBytes = std::size_t{4} << 20;
/// CCL buffers of groups are whole ones of these, on all hosts, whatever pages they have.
inline constexpr std::size_t kBufferGrain = 4096;

/// Of a CCL buffer: where so many ranks share a host, half of it has a cache line for a piece from each.
[[nodiscard]] constexpr std::size_t least_buffer_bytes(Rank ranks) noexcept {
  constexpr std::size_t kLeast = std::size_t{64} << 10;
  constexpr std::size_t kLeastOfEach = 2 * 64;
  return std::max(kLeast, (ranks * kLeastOfEach + kBufferGrain - 1) / kBufferGrain * kBufferGrain);
}

}  // namespace cohort
