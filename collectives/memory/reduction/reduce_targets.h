// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cohort::detail {

/// For tests: the instruction sets that were compiled and that this machine has, best first.
[[nodiscard]] std::vector<std::string> reduction_targets();

/// For tests: every reduction from now on uses that one of reduction_targets(); "" goes back to the best. Not
/// while a reduction runs.
void force_reduction_target(std::string_view name);

}  // namespace cohort::detail
