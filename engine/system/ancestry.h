// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cohort {

/// Who started this process and its siblings: its first ancestor whose environment has not that variable,
/// which they have. "NUMBER@START", as no other process of this host is called while it is up; the number
/// alone where the system says no more, as of another user's process.
[[nodiscard]] std::string ancestor_without(std::string_view variable);

}  // namespace cohort
