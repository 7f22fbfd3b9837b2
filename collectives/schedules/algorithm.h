// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/distances.h>
#include <cohort/collectives/schedules/exec.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <string_view>

namespace cohort {

/// A schedule without a coroutine: plain functions of local steps (Exec::perform) on what all ranks of a host
/// have announced. Memory runs them in place, without suspending; while a rank waits for the others it may
/// call combine() to learn what its steps will be if all data travels, and once more if some does not.
template <class Op>
struct LocalSchedule {
  Announces announces = Announces::nothing;
  /// Of Announces::data: what it does depends on its arguments alone, since it is kept for the next such
  /// call.
  void (*combine)(Exec& x, const Op& op) = nullptr;
  /// After a phase, where there is one: if any rank announced by reference what others read, or all meet
  /// again. May be null.
  void (*finish)(Exec& x, const Op& op) = nullptr;
  /// Of Announces::data, of so many bytes that all travel: whether ranks share what is to be done, so that
  /// finish() takes what others have left in their CCL buffers. The same on every rank. Null: they never do.
  bool (*meets_again)(const Exec& x, std::size_t bytes) = nullptr;
  /// Inputs of tuning::slots::kReferFrom bytes or more need not travel: a rank whose windows all others map
  /// announces them by reference (Exec::has_referred), at the price of one phase if others read any of them.
  ///
  /// Each decides for itself, of its result, too, where it gives nothing. What by the operator's definition
  /// nobody else gets travels in no case: who gives it finds it in its send window.
  bool may_refer = false;
};

/// largest_piece of a schedule that uses no buffer of the communicator's, or loops over it by itself.
inline constexpr std::size_t kWholeMessage = ~std::size_t{0};
[[nodiscard]] inline std::size_t whole_message(std::size_t, Rank) noexcept { return kWholeMessage; }

[[nodiscard]] inline Needs no_needs(std::size_t, Rank) noexcept { return {}; }
[[nodiscard]] inline Needs links_to_all(std::size_t, Rank) noexcept { return {.links_to_all = true}; }
[[nodiscard]] inline Needs links_to_neighbours(std::size_t, Rank) noexcept {
  return {.links_to_neighbours = true};
}

/// What an algorithm says of so many bytes: for a number of ranks, or for ranks of which some share hosts.
template <class Said>
class ForRanks {
 public:
  using OfRanks = Said (*)(std::size_t bytes, Rank ranks);
  using OfHosts = Said (*)(std::size_t bytes, const Hosts& hosts);

  constexpr ForRanks(std::nullptr_t = nullptr) noexcept {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<OfRanks> F>
  constexpr ForRanks(F of_ranks) noexcept : of_ranks_(of_ranks) {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<OfHosts> F>
  constexpr ForRanks(F of_hosts) noexcept : of_hosts_(of_hosts) {}  // NOLINT(google-explicit-constructor)

  constexpr explicit operator bool() const noexcept { return of_ranks_ != nullptr || of_hosts_ != nullptr; }
  [[nodiscard]] Said operator()(std::size_t bytes, const Hosts& hosts) const {
    return of_hosts_ != nullptr ? of_hosts_(bytes, hosts) : of_ranks_(bytes, hosts.ranks());
  }

 private:
  OfRanks of_ranks_ = nullptr;
  OfHosts of_hosts_ = nullptr;
};

/// One algorithm for one operator: what it costs, what it needs, and the schedule, or a local one, or both.
///
/// `bytes` is Op::size_bytes() of the piece that a run handles; for needs(), of the largest one of its size
/// class, and so what a schedule asks for by its own bytes it has to ask for here by any as large.
///
/// A message above largest_piece is run in pieces. With both, the local schedule runs where all ranks map all
/// user windows, the other elsewhere.
template <class Op>
struct Algorithm {
  std::string_view name;
  Scope scope = Scope::network;
  Levels levels = Levels::none;
  Distances distances = Distances::pairs;  ///< of one without levels
  /// Of reductions. The checker holds the schedule to it, and selection offers it where that is enough.
  ReductionOrder order = ReductionOrder::fixed;
  /// Null: it runs only where it is asked for by name.
  ForRanks<Cost> cost = nullptr;
  ForRanks<Needs> needs = no_needs;
  /// The largest piece one run can handle with CCL buffers and scratch of `buffer_bytes` each.
  ForRanks<std::size_t> largest_piece = whole_message;
  Task<> (*schedule)(Exec& x, Op op) = nullptr;
  LocalSchedule<Op> local{};
  /// Blocks of the receive window may lie apart: each slice of it lies in one of them, and no peer names any.
  bool keeps_to_blocks = false;
};

/// The bytes of one piece of a message: at most `largest`, but for a grain of elements that divides well.
[[nodiscard]] inline std::size_t piece_bytes(std::size_t message_bytes, std::size_t element_bytes,
                                             std::size_t largest) noexcept {
  const std::size_t grain = element_bytes * 64;
  return std::min(message_bytes, std::max(grain, largest / grain * grain));
}

/// Resources are made once for all pieces of a class: those of 0, 1, 2 to 3, 4 to 7, ... bytes.
[[nodiscard]] inline std::uint8_t size_class(std::size_t piece_bytes) noexcept {
  return static_cast<std::uint8_t>(std::bit_width(piece_bytes));
}
/// What needs() is asked for: no piece of the class is larger.
[[nodiscard]] inline std::size_t class_bytes(std::uint8_t size_class) noexcept {
  return std::size_t{1} << size_class;
}

template <class Op>
AnyAlgorithm::AnyAlgorithm(const Algorithm<Op>& algorithm) noexcept
    : typed_(&algorithm),
      functions_(&functions_of(operator_of<Op>)),
      name_(algorithm.name),
      op_(operator_of<Op>),
      id_(algorithm_id(name_)),
      scope_(algorithm.scope),
      levels_(algorithm.levels),
      order_(Op::kCombines ? algorithm.order : ReductionOrder::by_rank_at_once),
      announces_(algorithm.local.announces),
      meets_again_(algorithm.local.meets_again),
      may_refer_(algorithm.local.may_refer),
      keeps_to_blocks_(algorithm.keeps_to_blocks),
      has_schedule_(algorithm.schedule != nullptr),
      has_cost_(static_cast<bool>(algorithm.cost)) {}

}  // namespace cohort
