// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/random.h>
#include <cohort/tools/soak/job.h>

namespace cohort::soak {

/// Any collective of so many ranks.
[[nodiscard]] CallPlan draw_call(world::Random& random, Rank ranks);

}  // namespace cohort::soak
