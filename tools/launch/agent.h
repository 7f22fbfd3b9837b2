// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

namespace cohort {

/// The end on one host of a job on several: starts that host's ranks as its launcher says on standard input,
/// passes on what they write, and ends them with its launcher, or when nothing is heard of it any more.
///
/// On standard input: the plan (agent_plan.h), the secret as a line of 64 hexadecimal digits; then lines
/// "meet HOST..." (answered by "address ADDRESS"), "start ADDRESS", "signal NUMBER", "alive". On standard
/// output, after agent_mark(): "hello ADDRESS", "address ADDRESS", "failed STATUS"; everything else there is
/// output of ranks.
///
/// Returns the status of its ranks, as launch() does. Throws what launch() throws.
Task<int> run_agent(Engine& engine);

}  // namespace cohort
