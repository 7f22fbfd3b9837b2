// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Settings from environment variables: read and checked in one place. Everything throws InvalidArgument
/// naming the variable, its text and what would be accepted; an unset or empty variable is nullopt.
namespace cohort::environment {

[[nodiscard]] std::optional<std::string> text(const char* name);
[[nodiscard]] std::optional<std::uint64_t> number(const char* name, std::uint64_t least, std::uint64_t most);
/// "200M", "64K", "1G", "4096": bytes, powers of 1024.
[[nodiscard]] std::optional<std::uint64_t> bytes(const char* name);
/// A number of microseconds, as in COHORT_SPIN_US=20.
[[nodiscard]] std::optional<Duration> microseconds(const char* name);
/// "90", "1.5", "250ms", "2min": seconds unless a unit is given.
[[nodiscard]] std::optional<Duration> duration(const char* name);

/// The parsers themselves, for command lines; `what` is named in the error.
[[nodiscard]] std::uint64_t parse_number(std::string_view what, std::string_view text, std::uint64_t least,
                                         std::uint64_t most);
[[nodiscard]] std::uint64_t parse_bytes(std::string_view what, std::string_view text);
[[nodiscard]] Duration parse_duration(std::string_view what, std::string_view text);

}  // namespace cohort::environment
