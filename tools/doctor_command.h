// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace cohort {

/// `cohort doctor`: what is wrong with this host, or with those of a job.
void add_doctor_command(CLI::App& app, int& status);

}  // namespace cohort
