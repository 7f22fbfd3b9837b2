// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/system/platform.h>
#include <cohort/tools/explain/options.h>

namespace cohort::explain {

/// Writes explanations as text: a table and what was measured, or a JSON object a line.
class Report {
 public:
  Report(const Options& options, Rank ranks, std::string transport)
      : options_(options), ranks_(ranks), transport_(std::move(transport)) {}

  /// Before the first size of an operator.
  [[nodiscard]] std::string begin(Operator op);
  [[nodiscard]] std::string row(Operator op, std::size_t bytes, const Explanation& explanation);
  /// The numbers that all of it rests on, once, at the end.
  [[nodiscard]] std::string measured(const Reach& reach) const;
  /// What this rank was told of its machine: copies, pieces and spinning rest on it.
  [[nodiscard]] std::string machine(Platform& platform) const;

 private:
  [[nodiscard]] std::string candidates_of(Operator op, const Explanation& explanation);
  [[nodiscard]] std::string json_row(Operator op, std::size_t bytes, const Explanation& explanation) const;

  const Options& options_;
  const Rank ranks_;
  const std::string transport_;
  bool has_begun_ = false;
  bool is_first_row_ = true;  ///< of an operator
};

}  // namespace cohort::explain
