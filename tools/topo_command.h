// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace cohort {

/// `cohort topo`: hosts, cores, memories, interfaces and devices, and which ranks share memory.
void add_topo_command(CLI::App& app, int& status);

}  // namespace cohort
