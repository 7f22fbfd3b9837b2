// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace cohort {

/// Adds `cohort check`, which proves the library's schedules right on symbolic memory. When it is chosen, it
/// sets `status`.
void add_check_command(CLI::App& app, int& status);

}  // namespace cohort
