// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/random.h>
#include <cohort/tools/soak/job.h>

namespace cohort::soak {

/// Draws what ranks do beside the calls of their communicators, in a third of the jobs: groups with calls of
/// their own, and messages.
void draw_what_is_beside(world::Random& random, Job& job);

}  // namespace cohort::soak
