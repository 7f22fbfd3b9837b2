// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/random.h>
#include <cohort/tools/soak/job.h>

namespace cohort::soak {

/// Draws what happens to a job without faults, or nothing: a death amid memory that peers touch, forks, late
/// ranks, a rival at its address, a link that goes down at a moment. Changes what else was drawn where that
/// is needed.
void draw_event(world::Random& random, Job& job);

/// Gives others the time that the late ranks take, unless they are late beyond the patience of `impatient`.
void allow_for_lateness(Job& job, const CommunicatorPlan* impatient = nullptr);

}  // namespace cohort::soak
