// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/determinism.h>
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/engine/clock.h>

#include <span>
#include <string>
#include <string_view>

namespace cohort {

class AnyAlgorithm;

/// A DataType that has to be given: there is none by default.
struct ElementType {
  constexpr ElementType(DataType of) noexcept : type(of) {}      // NOLINT(google-explicit-constructor)
  constexpr operator DataType() const noexcept { return type; }  // NOLINT(google-explicit-constructor)

  DataType type;
};

/// What a caller gives to a collective: buffers, and what applies of the rest.
struct CallArguments {
  ElementType type;
  Combination reduce = ReduceOp::sum;
  Rank root = 0;
  std::span<const std::byte> in{};
  std::span<std::byte> out{};  ///< the one buffer of a broadcast; ignored on ranks that get nothing
  /// Elements of each block, as the operator's Counts say, where it has any; empty: all blocks alike. Outlive
  /// the call.
  std::span<const std::size_t> counts{};
  /// Of Counts::pairs: with it `counts` are only what this rank gives to each, and this is what it gets of
  /// each. The ranks tell each other.
  std::span<const std::size_t> recv_counts{};
  /// Of an all_gather, in place of `out`: where the block of each rank goes, wherever that is, without
  /// overlaps. Outlive the call. Only where Communicator::takes_blocks_apart() says so.
  std::span<std::byte* const> blocks{};
  /// Of the all_gather in which the ranks of a split tell each other colour and key: it matches no other one.
  bool is_split = false;
};

/// One collective as the caller asked for it. `count` is what the ranks must agree on: the elements of a
/// vector, or of one block where buffers hold one for each rank: of the largest where blocks differ.
struct Call {
  /// Of what nothing else is known. (Were all of it constant, g++ would clear it by `rep stos`, whose start
  /// takes longer than the rest of make_call().)
  explicit Call(Operator of) noexcept : op(of) {}

  Operator op;
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::sum;
  double factor = 1;  ///< of scaled_sum
  Rank root = 0;      ///< kSplit of an all_gather that is one of a split
  static constexpr Rank kSplit = 0xffffff;
  std::uint64_t count = 0;
  std::span<const std::size_t> counts{};
  std::span<const std::size_t> recv_counts{};
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::span<std::byte* const> blocks{};  ///< where it lies apart; `recv` is null then
  std::size_t send_bytes = 0;
  std::size_t recv_bytes = 0;
  std::size_t announced_bytes = 0;          ///< the largest that any rank brings as it arrives
  const AnyAlgorithm* algorithm = nullptr;  ///< selected
  bool is_algorithm_forced = false;         ///< by the call
  std::uint64_t chosen_until = 0;           ///< by figures that hold up to the message of that number
  /// What is promised of its bits; D0 also where any algorithm gives the same.
  Determinism determinism = Determinism::D0;
  Duration timeout{0};  ///< zero: the communicator's

  /// Only this rank's counts are known yet, and so neither the largest nor what algorithm it takes.
  [[nodiscard]] bool has_own_counts() const noexcept { return !recv_counts.empty(); }
  /// Asks for a level, as far as it makes a difference to this call.
  void ask_for(Determinism level) noexcept {
    const bool is_any = level == Determinism::D0 || !op->combines || !shows_order(type, reduce);
    determinism = is_any ? Determinism::D0 : level;
  }
  /// What its algorithm has to combine in.
  [[nodiscard]] ReductionOrder order() const noexcept { return order_for(determinism, type); }
  /// What algorithms are chosen and cut by: Op::size_bytes().
  [[nodiscard]] std::size_t message_bytes() const noexcept { return count * size_bytes(type); }
  [[nodiscard]] OperatorArguments arguments(Rank ranks) const noexcept {
    return {count, size_bytes(type), Combine(type, reduce, ranks), root, counts};
  }
  [[nodiscard]] Form form(Rank ranks) const noexcept { return {count, ranks, root, counts}; }
};

/// The call that these arguments make on that rank.
///
/// Throws InvalidArgument for buffers that do not fit the operator, its counts, each other or their type,
/// that overlap in part, that are null or not aligned to their elements, for counts that are too few or too
/// many, for a reduction that does not combine such elements, for a factor that cannot be one of them, and
/// for a root that is no rank.
[[nodiscard]] Call make_call(Operator op, const CallArguments& arguments, Rank rank, Rank ranks);

/// The same in bytes, DataType::uint8, for elements of a type of the program's that has so many, 1 or more.
/// What does not fit is told in elements.
[[nodiscard]] Call make_call_on_elements(Operator op, const CallArguments& arguments,
                                         std::size_t element_bytes, Rank rank, Rank ranks);

/// Throws InvalidArgument.
[[noreturn, gnu::cold]] void refuse_call(std::string text);

/// What callers know an operator of Counts::pairs as where each rank knows its own counts only.
inline constexpr std::string_view kOperatorWithOwnCounts = "all_to_all_v";

/// A call of that size without buffers, for explanations: `bytes` is the largest buffer that a rank has.
/// Throws InvalidArgument for bytes that are no whole elements, the same number for each rank.
[[nodiscard]] Call make_call_of_size(Operator op, DataType type, std::size_t bytes, Rank ranks);

}  // namespace cohort
