// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cohort::command_line {

/// Those of the library, in order of preference: what --transport accepts.
[[nodiscard]] std::vector<std::string> transport_names();

}  // namespace cohort::command_line
