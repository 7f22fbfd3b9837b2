// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <span>
#include <string>

namespace cohort {

/// "rank 3", or "ranks 0-2, 5", from ascending numbers.
[[nodiscard]] std::string describe_ranks(std::span<const Rank> ranks);

}  // namespace cohort
