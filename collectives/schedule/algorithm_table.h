// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>

#include <array>
#include <span>
#include <string>
#include <vector>

namespace cohort {

/// The algorithms that a communicator knows, by operator, in the order in which equals are preferred: those
/// of the library, then those that the program adds.
class AlgorithmTable {
 public:
  /// Those of the library (algorithms/library.cpp).
  AlgorithmTable();
  /// The same, which nobody has to keep.
  static const AlgorithmTable& library();

  /// Behind the others; it outlives the table. Throws InvalidArgument for one without a name or without a
  /// schedule, and for a name that its operator has or that signs like another one.
  void add(const AnyAlgorithm& algorithm);

  [[nodiscard]] std::span<const AnyAlgorithm> of(Operator op) const noexcept {
    return by_operator_[op.index()];
  }
  /// Null if there is none.
  [[nodiscard]] const AnyAlgorithm* find(Operator op, std::string_view name) const noexcept;
  [[nodiscard]] bool has_name(std::string_view name) const;
  /// Each name once, in order of appearance.
  [[nodiscard]] std::vector<std::string_view> names() const;
  /// "#7" for an id that nobody has here.
  [[nodiscard]] std::string name_of(AlgorithmId id) const;

 private:
  std::array<std::vector<AnyAlgorithm>, kOperators> by_operator_;
};

}  // namespace cohort
