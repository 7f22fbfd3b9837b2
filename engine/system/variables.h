// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::environment {

/// The environment variables that mean something to cohort: those of docs/operate/environment.md.
[[nodiscard]] std::span<const std::string_view> variables() noexcept;

/// The one of those names that this may be a slip of, and is not.
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view name,
                                                           std::span<const std::string_view> names);

/// A sentence for each variable of this process whose name is nearly one of them: a mistake that nothing else
/// would show. What else begins with COHORT_ belongs to programs around it.
[[nodiscard]] std::vector<std::string> misspelt_variables();
/// Warns of them, once in a process, and on rank 0: the others have the same environment mostly.
void warn_of_misspelt_variables(unsigned rank);

}  // namespace cohort::environment
