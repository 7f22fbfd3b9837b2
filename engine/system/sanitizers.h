// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which sanitizers this file is compiled for: g++ defines macros, clang answers questions. Only clang is
/// asked, since headers of the system may define the question as 0 for compilers that lack it.
namespace cohort::sanitizers {

#if defined(__clang__)
inline constexpr bool kAddress = __has_feature(address_sanitizer);
inline constexpr bool kThread = __has_feature(thread_sanitizer);
#else
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddress = true;
#else
inline constexpr bool kAddress = false;
#endif
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThread = true;
#else
inline constexpr bool kThread = false;
#endif
#endif

}  // namespace cohort::sanitizers
