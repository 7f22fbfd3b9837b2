// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>

#include <array>
#include <span>
#include <string>
#include <vector>

namespace cohort {

/// The two ways of a small call between the ranks of a host: with its data in slots, and by the first
/// algorithm on mapped memory that has a schedule. Null where there is none.
struct HostWays {
  const AnyAlgorithm* in_slots = nullptr;
  const AnyAlgorithm* on_mapped_memory = nullptr;
};

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
  /// Of those that are chosen by their cost and combine in such an order, or in a better one. Found when they
  /// are added: a small call has no time to search.
  [[nodiscard]] HostWays ways_on_host(Operator op,
                                      ReductionOrder order = ReductionOrder::fixed) const noexcept {
    const AnyAlgorithm* const all = by_operator_[op.index()].data();
    const Ways& ways = ways_[static_cast<std::size_t>(order)][op.index()];
    return {ways.in_slots != Ways::kNone ? all + ways.in_slots : nullptr,
            ways.on_mapped_memory != Ways::kNone ? all + ways.on_mapped_memory : nullptr};
  }
  /// Null if there is none.
  [[nodiscard]] const AnyAlgorithm* find(Operator op, std::string_view name) const noexcept;
  [[nodiscard]] bool has_name(std::string_view name) const;
  /// Each name once, in order of appearance.
  [[nodiscard]] std::vector<std::string_view> names() const;
  /// "#7" for an id that nobody has here.
  [[nodiscard]] std::string name_of(AlgorithmId id) const;

 private:
  /// Places in the operator's list, so that the table can be copied.
  struct Ways {
    static constexpr std::size_t kNone = ~std::size_t{0};
    std::size_t in_slots = kNone;
    std::size_t on_mapped_memory = kNone;
  };

  std::array<std::vector<AnyAlgorithm>, kOperators> by_operator_;
  std::array<std::array<Ways, kOperators>, kReductionOrders> ways_;  ///< by what the order has to be
};

}  // namespace cohort
