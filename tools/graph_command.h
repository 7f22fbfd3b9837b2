// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// Adds `cohort graph`, which prints, plans and simulates a step of training that a file describes. When it
/// is chosen, it sets `status`.
void add_graph_command(CLI::App& app, int& status);

}  // namespace cohort
