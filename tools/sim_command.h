// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// Adds `cohort sim`, which predicts how long the library's schedules take. When it is chosen, it sets
/// `status`.
void add_sim_command(CLI::App& app, int& status);

}  // namespace cohort
