// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/reduction/reduce_targets.h>

#include <cohort/collectives/memory/reduction/reduce.h>
#include <cohort/engine/assert.h>
#include <hwy/highway.h>

#include <algorithm>

namespace cohort {

namespace {

std::string name_of(std::int64_t target) {
  std::string name = hwy::TargetName(target);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? c + ('a' - 'A') : c; });
  return name;
}

}  // namespace

// The lowest bit is the best target; the dispatch tables choose likewise.
std::string reduction_target() { return name_of(hwy::SupportedAndGeneratedTargets().front()); }

namespace detail {

std::vector<std::string> reduction_targets() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.push_back(name_of(target));
  return names;
}

void force_reduction_target(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name_of(target) == name) hwy::SetSupportedTargetsForTest(target);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  COHORT_ASSERT(name.empty() || reduction_target() == name, "this machine has no {}", name);
}

}  // namespace detail

}  // namespace cohort
