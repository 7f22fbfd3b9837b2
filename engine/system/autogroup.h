// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace cohort {

/// The processes that the kernel gives cores to together, such as "/autogroup-103": those of one session,
/// between whom alone a yield passes a core on. Empty where there are no such groups, or it is not known.
/// Blocks. Errors: none.
[[nodiscard]] std::string autogroup_of(std::uint32_t process);

}  // namespace cohort
