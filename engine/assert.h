// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>

namespace cohort::detail {

/// Prints the failed claim with its values and aborts. Programming errors only; what the world does to us is
/// an Error.
[[noreturn]] void assertion_failed(const char* claim, const char* file, int line,
                                   const std::string& values) noexcept;

}  // namespace cohort::detail

/// Holds in release builds too: a broken invariant of a communication engine must not go on to corrupt a
/// peer.
#define COHORT_ASSERT(claim, ...)                                                                 \
  do {                                                                                            \
    if (!(claim)) [[unlikely]]                                                                    \
      ::cohort::detail::assertion_failed(#claim, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
