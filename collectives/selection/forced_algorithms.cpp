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
                          "level0:INSIDE_OF_HOSTS;level1:ACROSS_THEM",
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

std::vector<std::string_view> names_of(Operator op, const AlgorithmTable& algorithms) {
  std::vector<std::string_view> names;
  for (const AnyAlgorithm& algorithm : algorithms.of(op)) names.push_back(algorithm.name());
  return names;
}

/// "mesh_nhr" where the levels are asked for by "level0:mesh;level1:nhr"; any other text as it is.
std::string name_from(std::string_view text, std::string_view asked) {
  constexpr std::string_view kLevels[] = {"level0:", "level1:"};
  if (!asked.starts_with("level")) return std::string(asked);
  std::string_view names[std::size(kLevels)];
  const std::vector<std::string_view> parts = split(asked, ';');
  for (const std::string_view part : parts) {
    const auto level = std::find_if(std::begin(kLevels), std::end(kLevels),
                                    [&](std::string_view prefix) { return part.starts_with(prefix); });
    if (level == std::end(kLevels))
      refuse(text, "'{}' is for no level; there are level0, inside of hosts, and level1, across them", part);
    std::string_view& name = names[level - std::begin(kLevels)];
    if (!name.empty()) refuse(text, "{} is there twice in '{}'", level->substr(0, level->size() - 1), asked);
    name = part.substr(level->size());
  }
  for (const std::string_view name : names)
    if (name.empty()) refuse(text, "'{}' does not name an algorithm for each of level0 and level1", asked);
  return fmt::format("{}_{}", names[0], names[1]);
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
    const std::string name =
        name_from(text, equals == std::string_view::npos ? part : part.substr(equals + 1));
    if (equals == std::string_view::npos) {
      if (!algorithms.has_name(name))
        refuse(text, "'{}' is none of {}", name, fmt::join(algorithms.names(), ", "));
      if (!for_others.empty()) refuse(text, "'{}' and '{}' are both for all operators", for_others, name);
      for_others = name;
      continue;
    }
    const std::optional<Operator> op = parse_operator(part.substr(0, equals));
    if (!op) refuse(text, "'{}' is none of {}", part.substr(0, equals), fmt::join(operator_names(), ", "));
    if (is_named[op->index()]) refuse(text, "{} is there twice", to_string(*op));
    if (algorithms.find(*op, name) == nullptr)
      refuse(text, "'{}' is no algorithm of {}, which has {}", name, to_string(*op),
             fmt::join(names_of(*op, algorithms), ", "));
    is_named.set(op->index());
    by_operator_[op->index()] = name;
  }
  for (const Operator op : all_operators())
    if (!is_named[op.index()]) by_operator_[op.index()] = for_others;
}

}  // namespace cohort
