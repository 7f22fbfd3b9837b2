// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/placed.h>

#include <algorithm>

namespace cohort {

/// Combines `share` of every rank's input into `result`, in rank order: peers' parts are pulled chunk by
/// chunk into ccl_in, small enough that all of them are still in the cache when they are combined.
Task<> combine_pulled(Exec& x, Slice share, Slice result, Combine combine, std::size_t element_bytes);

}  // namespace cohort
