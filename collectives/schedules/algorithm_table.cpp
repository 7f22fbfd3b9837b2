// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithm_table.h>

#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {

AlgorithmTable::AlgorithmTable() {
  for (const AnyAlgorithm& algorithm : algorithms_of_the_library()) add(algorithm);
}

const AlgorithmTable& AlgorithmTable::library() {
  static const AlgorithmTable table;
  return table;
}

void AlgorithmTable::add(const AnyAlgorithm& algorithm) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::InvalidArgument, fmt::format("algorithm '{}' for {} cannot be registered: {}",
                                                        algorithm.name(), to_string(algorithm.op()), why));
  };
  if (!algorithm.objection().empty()) refuse(std::string(algorithm.objection()));
  if (find(algorithm.op(), algorithm.name()) != nullptr) refuse("there is one of this name; give it another");
  for (const std::string_view name : names())
    if (name != algorithm.name() && algorithm_id(name) == algorithm.id())
      refuse(fmt::format("ranks would take it for '{}', whose name has the same hash; give it another name",
                         name));
  const std::size_t index = algorithm.op().index();
  if (algorithm.scope() == Scope::node && algorithm.has_cost()) {
    for (std::size_t order = 0; order <= static_cast<std::size_t>(algorithm.order()); ++order) {
      Ways& ways = ways_[order][index];
      std::size_t& way = algorithm.has_schedule() ? ways.on_mapped_memory : ways.in_slots;
      if (way == Ways::kNone) way = by_operator_[index].size();
    }
  }
  by_operator_[index].push_back(algorithm);
}

const AnyAlgorithm* AlgorithmTable::find(Operator op, std::string_view name) const noexcept {
  const std::span<const AnyAlgorithm> all = of(op);
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name() == name; });
  return found == all.end() ? nullptr : &*found;
}

bool AlgorithmTable::has_name(std::string_view name) const {
  const std::vector<std::string_view> all = names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

std::vector<std::string_view> AlgorithmTable::names() const {
  std::vector<std::string_view> names;
  for (const auto& algorithms : by_operator_)
    for (const AnyAlgorithm& algorithm : algorithms)
      if (std::find(names.begin(), names.end(), algorithm.name()) == names.end())
        names.push_back(algorithm.name());
  return names;
}

std::string AlgorithmTable::name_of(AlgorithmId id) const {
  for (const std::string_view name : names())
    if (algorithm_id(name) == id) return std::string(name);
  return fmt::format("#{}", id);
}

}  // namespace cohort
