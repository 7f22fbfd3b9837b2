// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/random.h>
#include <cohort/tools/soak/job.h>

#include <span>

namespace cohort::soak {

/// Any collective of so many ranks, with one of these counts; no buffer of a rank is larger than
/// `most_bytes`.
[[nodiscard]] CallPlan draw_call(world::Random& random, Rank ranks, std::span<const std::size_t> counts,
                                 std::size_t most_bytes);
/// The same with counts and sizes of simulated worlds.
[[nodiscard]] CallPlan draw_call(world::Random& random, Rank ranks);

}  // namespace cohort::soak
