// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// Adds `cohort sim` to the command. `status` becomes the program's.
void add_sim_command(CLI::App& app, int& status);

}  // namespace cohort
