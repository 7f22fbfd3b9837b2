// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>

#include <cstddef>

namespace cohort {

/// How much of a message may go at once over links of ranks that share the caches of one host, `largest` at
/// most, where a core's cache holds `cache_bytes`; the same on all ranks that say the same.
///
/// Between hosts a message goes whole: what is on the wire lies in nobody's cache, and each piece takes its
/// rounds anew.
///
/// Of the blocks that a root gives or gets each moves once, of others' as many times as there are ranks; a
/// root that gives has the kernel's copy in its cache as well.
///
/// On all ranks together no more than p - 1 caches are on the way in a round: what all of them send whole
/// goes in halves, quarters, ... down to 64 KiB.
[[nodiscard]] std::size_t piece_over_links(const AnyAlgorithm& algorithm, std::size_t largest,
                                           std::size_t message_bytes, const Hosts& hosts,
                                           std::size_t cache_bytes);

}  // namespace cohort
