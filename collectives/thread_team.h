// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/net/rank.h>

#include <functional>
#include <memory>

namespace cohort {

/// Runs body(0) to body(parts - 1), each on a thread with an engine of its own, and none of them if not all
/// threads and engines can be had: ranks would wait for those that never come.
///
/// Returns when all threads have ended. Throws the first reason why they did not begin, such as
/// ResourceLimit. `make_engine` is called on each thread; body must not throw.
void run_on_threads(Rank parts, const std::function<std::unique_ptr<Engine>()>& make_engine,
                    const std::function<void(Rank part, Engine& engine)>& body);

}  // namespace cohort
