// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/forced_algorithms.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bitset>
#include <vector>

namespace cohort {
namespace {

template <class... Argument>
[[noreturn]] void refuse(std::string_view text, fmt::format_string<Argument...> why, Argument&&... argument) {
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("COHORT_ALGO='{}', or the communicator's option: {}; write one algorithm for all "
                          "operators, or OPERATOR=ALGORITHM, joined by '/', where an algorithm may be "
                          "level0:INSIDE_OF_HOSTS;level1:ACROSS_THEM, or "
                          "level0:INSIDE_OF_HOSTS;level1:BELOW_SWITCHES;level2:ACROSS_THEM",
                          text, fmt::format(why, std::forward<Argument>(argument)...)));
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(by, at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return parts;
    at = end + 1;
  }
}

/// What is done inside of hosts, across them or below a switch, and across switches.
constexpr std::string_view kLevels[] = {"level0:", "level1:", "level2:"};
constexpr std::size_t kFewestLevels = 2;

/// "level0:mesh;level1:nhr" of "mesh" and "nhr".
std::string by_levels(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t level = 0; level < names.size(); ++level)
    text += fmt::format("{}{}{}", level == 0 ? "" : ";", kLevels[level], names[level]);
  return text;
}

/// What is asked for: an algorithm by its name, or by what it does on levels.
struct Asked {
  std::string_view text;
  std::string key;
  bool is_by_levels = false;
};

/// "level0:mesh;level1:nhr" of "mesh_nhr"; empty for an algorithm without levels, or without such a name.
std::string levels_of(const AnyAlgorithm& algorithm) {
  if (algorithm.levels() == Levels::none) return "";
  const std::size_t levels =
      algorithm.levels() == Levels::equal_switches ? std::size(kLevels) : kFewestLevels;
  std::vector<std::string_view> names;
  std::string_view rest = algorithm.name();
  while (names.size() + 1 < levels) {
    const std::size_t end = rest.find('_');
    if (end == std::string_view::npos) return "";
    names.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  names.push_back(rest);
  return by_levels(names);
}

/// By what is asked for, an algorithm is found; empty if it cannot be asked for so.
std::string key_of(const AnyAlgorithm& algorithm, bool is_by_levels) {
  return is_by_levels ? levels_of(algorithm) : std::string(algorithm.name());
}

/// What these operators have, in the way in which it was asked for.
std::string list_of(std::span<const Operator> operators, const AlgorithmTable& algorithms,
                    bool is_by_levels) {
  std::vector<std::string> keys;
  for (const Operator op : operators)
    for (const AnyAlgorithm& algorithm : algorithms.of(op)) {
      const std::string key = key_of(algorithm, is_by_levels);
      if (!key.empty() && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  return keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "));
}

/// "level1:nhr;level0:mesh" with the levels in their order; any other text as it is.
Asked asked_from(std::string_view text, std::string_view asked) {
  if (!asked.starts_with("level")) return {asked, std::string(asked), false};
  std::optional<std::string_view> names[std::size(kLevels)];
  const std::vector<std::string_view> parts = split(asked, ';');
  for (const std::string_view part : parts) {
    const auto level = std::find_if(std::begin(kLevels), std::end(kLevels),
                                    [&](std::string_view prefix) { return part.starts_with(prefix); });
    if (level == std::end(kLevels))
      refuse(text,
             "'{}' is for no level; there are level0, inside of hosts, and level1, across them, or below a "
             "switch, with level2 across switches",
             part);
    std::optional<std::string_view>& name = names[level - std::begin(kLevels)];
    if (name) refuse(text, "{} is there twice in '{}'", level->substr(0, level->size() - 1), asked);
    name = part.substr(level->size());
  }
  const std::size_t levels = names[kFewestLevels] ? std::size(kLevels) : kFewestLevels;
  std::vector<std::string_view> given;
  for (std::size_t level = 0; level < levels; ++level) {
    given.push_back(names[level].value_or(""));
    if (given.back().empty())
      refuse(text, "'{}' does not name an algorithm for each of level0 {}", asked,
             levels == kFewestLevels ? "and level1" : "to level2");
  }
  return {asked, by_levels(given), true};
}

/// The algorithm's own name; empty where none of these operators has one that is asked for so.
std::string_view name_in(std::span<const Operator> operators, const Asked& asked,
                         const AlgorithmTable& algorithms) {
  for (const Operator op : operators)
    for (const AnyAlgorithm& algorithm : algorithms.of(op))
      if (asked.key == key_of(algorithm, asked.is_by_levels) && !asked.key.empty()) return algorithm.name();
  return {};
}

std::vector<std::string_view> operator_names() {
  std::vector<std::string_view> names;
  for (const Operator op : all_operators()) names.push_back(to_string(op));
  return names;
}

}  // namespace

ForcedAlgorithms::ForcedAlgorithms(std::string_view text, const AlgorithmTable& algorithms) {
  if (text.empty()) return;
  std::bitset<kOperators> is_named;
  std::string for_others;
  for (const std::string_view part : split(text, '/')) {
    const std::size_t equals = part.find('=');
    const bool is_for_one = equals != std::string_view::npos;
    const Asked asked = asked_from(text, is_for_one ? part.substr(equals + 1) : part);
    const std::string_view on_levels = asked.is_by_levels ? " on levels" : "";
    if (!is_for_one) {
      const std::string_view name = name_in(all_operators(), asked, algorithms);
      if (name.empty())
        refuse(text, "'{}' is none of {}", asked.text,
               list_of(all_operators(), algorithms, asked.is_by_levels));
      if (!for_others.empty()) refuse(text, "'{}' and '{}' are both for all operators", for_others, name);
      for_others = name;
      continue;
    }
    const std::optional<Operator> op = parse_operator(part.substr(0, equals));
    if (!op) refuse(text, "'{}' is none of {}", part.substr(0, equals), fmt::join(operator_names(), ", "));
    if (is_named[op->index()]) refuse(text, "{} is there twice", to_string(*op));
    const std::string_view name = name_in(std::span(&*op, 1), asked, algorithms);
    if (name.empty())
      refuse(text, "'{}' is no algorithm{} of {}, which has {}", asked.text, on_levels, to_string(*op),
             list_of(std::span(&*op, 1), algorithms, asked.is_by_levels));
    is_named.set(op->index());
    by_operator_[op->index()] = name;
  }
  for (const Operator op : all_operators())
    if (!is_named[op.index()]) by_operator_[op.index()] = for_others;
}

}  // namespace cohort
