// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/world/settings.h>

#include <functional>
#include <string>
#include <vector>

namespace cohort::test {

/// Runs the bodies as processes of a simulated world, each with an engine of its own: virtual time, simulated
/// sockets, shared memory as it is. Waiting costs nothing, and a hang is a failure at once.
///
/// `adjust`, if given, changes what a process's engine is made with. Expects that the world finds nothing and
/// that every simulated socket is closed in the end. Ends this process when a body never ends.
void run_world(const world::Settings& settings, const std::vector<std::function<void(Engine&)>>& bodies,
               const std::function<void(world::Process, EngineOptions&)>& adjust = {});

}  // namespace cohort::test
