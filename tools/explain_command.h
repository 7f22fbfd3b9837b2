// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// Adds `cohort explain`, which tells which algorithm runs a collective here, and why. When it is chosen, it
/// sets `status`; errors of cohort itself are thrown through CLI::App::parse().
void add_explain_command(CLI::App& app, int& status);

}  // namespace cohort
