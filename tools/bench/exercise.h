// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/engine/assert.h>

#include <optional>
#include <string_view>

namespace cohort::bench {

/// What is measured: one of the library's operators, or messages between ranks 0 and 1, there and back. A
/// value.
class Exercise {
 public:
  // Operators are most of them.
  constexpr Exercise(Operator op) noexcept : op_(op) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] static constexpr Exercise send_recv() noexcept { return Exercise(); }

  [[nodiscard]] constexpr bool is_messages() const noexcept { return !op_.has_value(); }
  /// Asserts that it is one.
  [[nodiscard]] Operator op() const noexcept {
    COHORT_ASSERT(op_.has_value(), "messages are no operator");
    return *op_;
  }
  [[nodiscard]] const OperatorInfo& info() const noexcept { return op_ ? op_->info() : kMessages; }
  const OperatorInfo* operator->() const noexcept { return &info(); }
  /// Elements of the largest buffer that a rank has, for a count of one.
  [[nodiscard]] std::size_t elements_per_count(Rank ranks) const noexcept {
    return op_ ? op_->elements_per_count(ranks) : 1;
  }

  constexpr bool operator==(const Exercise&) const = default;

 private:
  /// Described as if it were an operator, so that it is measured and reported like one.
  static const OperatorInfo kMessages;

  constexpr Exercise() = default;

  std::optional<Operator> op_;  ///< nothing: messages
};

[[nodiscard]] inline std::string_view to_string(Exercise exercise) noexcept { return exercise->name; }

}  // namespace cohort::bench
