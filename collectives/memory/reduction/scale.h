// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>

#include <cstddef>

namespace cohort {

/// to[i] = from[i] * factor, which is made an element first. One pass; the two are the same memory or
/// disjoint.
void scale(DataType type, double factor, std::byte* to, const std::byte* from, std::size_t count) noexcept;

}  // namespace cohort
