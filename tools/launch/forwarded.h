// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// The variables that ranks on other hosts get of this process's environment: COHORT_..., but for what tells
/// a rank its place and its secret, and what tells this host and machine from others; and those of `named`,
/// each as NAME, which has to be set, or NAME=VALUE. Without `all_of_cohort` only these.
///
/// Throws InvalidArgument.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> forwarded_variables(
    std::span<const std::string> named, bool all_of_cohort = true);

}  // namespace cohort
