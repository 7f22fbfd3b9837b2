// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// `cohort soak [--jobs N] [--seed S] [--topology FILE] [--show] [--trace]`: jobs of real communicators in
/// simulated worlds.
void add_soak_command(CLI::App& app, int& status);

}  // namespace cohort
