// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// Adds `cohort run`, which starts the ranks of a job on this host. When it is chosen, it sets `status` to
/// the job's status; errors of cohort itself are thrown through CLI::App::parse().
void add_run_command(CLI::App& app, int& status);

}  // namespace cohort
