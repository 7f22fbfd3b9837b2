// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cohort {

/// Writes a result to standard output, at once. Throws SystemError when nobody takes it.
void print(const std::string& text);

}  // namespace cohort
