// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace cohort::detail {

/// Prints the failed claim with its values and aborts. Programming errors only; what the world does to us is
/// an Error.
[[noreturn]] void assertion_failed(const char* claim, const char* file, int line,
                                   const std::string& values) noexcept;

/// Apart, so that a claim that holds costs its caller a comparison and no frame for the text.
template <class... Values>
[[noreturn, gnu::cold, gnu::noinline]] void fail_assertion(const char* claim, const char* file, int line,
                                                           fmt::format_string<Values...> text,
                                                           Values&&... values) noexcept {
  assertion_failed(claim, file, line, fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace cohort::detail

/// Holds in release builds too: a broken invariant of a communication engine must not go on to corrupt a
/// peer.
#define COHORT_ASSERT(claim, ...)                                                \
  do {                                                                           \
    if (!(claim)) [[unlikely]]                                                   \
      ::cohort::detail::fail_assertion(#claim, __FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
