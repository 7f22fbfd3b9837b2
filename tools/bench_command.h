// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cohort {

/// Adds `cohort bench`, which measures collectives on this host. When it is chosen, it sets `status`; errors
/// of cohort itself are thrown through CLI::App::parse(). `command` is how this process was started: its
/// ranks are started so too.
void add_bench_command(CLI::App& app, std::vector<std::string> command, int& status);

}  // namespace cohort
