// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace cohort {

/// Adds a subcommand, which sets the status when it is chosen: the functions of *_command.h beside this file.
using AddCommand = std::function<void(CLI::App& app, int& status)>;

/// The whole of a program `cohort` that has these subcommands: parses the command line, runs what was chosen,
/// and explains what was wrong on stderr. Returns the status of the process.
[[nodiscard]] int run_application(const std::vector<AddCommand>& commands, int argc, char** argv);

}  // namespace cohort
