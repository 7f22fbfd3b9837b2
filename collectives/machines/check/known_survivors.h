// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/mutants.h>

#include <span>
#include <string_view>

namespace cohort::check {

/// Mutants of the library that nothing is wrong with, and why they differ all the same.
struct KnownSurvivor {
  std::string_view op;
  std::string_view algorithm;
  ChangeKind kind{};
  TaskKind task{};
  std::string_view reason;
  bool (*is_such)(const Case&, const Mutant&) = nullptr;  ///< which of these; null: all of them
};
[[nodiscard]] std::span<const KnownSurvivor> known_survivors() noexcept;

[[nodiscard]] bool is_known_survivor(const Case& one, const Mutant& mutant);

}  // namespace cohort::check
