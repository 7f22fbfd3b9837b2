// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/environment.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>

namespace cohort::environment {
namespace {

struct Unit {
  std::string_view suffix;
  double seconds;
};
constexpr std::array kUnits = {Unit{"", 1.0},    Unit{"s", 1.0},    Unit{"ms", 1e-3}, Unit{"us", 1e-6},
                               Unit{"ns", 1e-9}, Unit{"min", 60.0}, Unit{"m", 60.0},  Unit{"h", 3600.0}};

[[noreturn]] void refuse(std::string_view what, std::string_view text, std::string_view accepted) {
  throw Error(ErrorKind::InvalidArgument, fmt::format("{}='{}' is not {}", what, text, accepted));
}

/// The shift that a size suffix means, or nullopt.
std::optional<unsigned> size_shift(std::string_view suffix) {
  if (suffix.empty() || suffix == "B" || suffix == "b") return 0U;
  const std::string_view unit = suffix.substr(1);
  if (!unit.empty() && unit != "B" && unit != "b" && unit != "iB" && unit != "ib") return std::nullopt;
  switch (suffix.front()) {
    case 'k':
    case 'K': return 10U;
    case 'm':
    case 'M': return 20U;
    case 'g':
    case 'G': return 30U;
    case 't':
    case 'T': return 40U;
    default: return std::nullopt;
  }
}

}  // namespace

std::uint64_t parse_number(std::string_view what, std::string_view text, std::uint64_t least,
                           std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    refuse(what, text, fmt::format("a whole number from {} to {}", least, most));
  return value;
}

std::uint64_t parse_bytes(std::string_view what, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto shift = size_shift(text.substr(static_cast<std::size_t>(end - text.data())));
  if (failure != std::errc{} || !shift || value > (~std::uint64_t{0} >> *shift))
    refuse(what, text, "a size such as 4096, 64K, 200M or 1G");
  return value << *shift;
}

Duration parse_duration(std::string_view what, std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr double kLongestSeconds = 1e9;
  for (const Unit& unit : kUnits) {
    if (failure != std::errc{} || suffix != unit.suffix) continue;
    const double seconds = value * unit.seconds;
    if (!(seconds >= 0 && seconds <= kLongestSeconds)) break;
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
  refuse(what, text, "a duration such as 30, 1.5, 250ms or 10min");
}

std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<std::uint64_t> number(const char* name, std::uint64_t least, std::uint64_t most) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return parse_number(name, *value, least, most);
}

std::optional<std::uint64_t> bytes(const char* name) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return parse_bytes(name, *value);
}

std::optional<Duration> microseconds(const char* name) {
  const auto value = number(name, 0, 1'000'000'000);
  if (!value) return std::nullopt;
  return std::chrono::microseconds(*value);
}

std::optional<Duration> duration(const char* name) {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return parse_duration(name, *value);
}

}  // namespace cohort::environment
