// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace cohort {

/// What errors and warnings call that which they advise to set or to use, in the language of the program.
/// Static texts.
struct Wording {
  std::string_view timeout = "COHORT_TIMEOUT";        ///< of every call that has none of its own
  std::string_view call_timeout = "with_deadline()";  ///< of one call
  std::string_view at_once = "by when_all";           ///< how two calls are under way at the same time
};

}  // namespace cohort
