// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cohort {

/// The path of this very program, wherever PATH leads by now; what it was started as, where that cannot be
/// told.
[[nodiscard]] std::string own_program(const std::string& as_started);

}  // namespace cohort
