// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/combine.h>
#include <cohort/net/slice.h>

#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

/// What the library has to know of an operator. Each one is a struct of its own in this folder: its slices,
/// as schedules see them, and these things as static members:
///
///   kName, kHasData, kHasRoot, kCombines, kHasOneBuffer, kCounts, kHasInPlace, kFlow
///   extent(form, rank)                how counts relate to buffers
///   in_place(form, rank)              what in place means
///   result(form, rank)                what a rank gets, by definition: the reference that the checker,
///                                     soaking, verification and tests compare with
///   bus_factor(ranks), least_traffic(form)
///   kept(form, rank)                  where some of what a rank gives is for itself alone; may be left out
///   of(arguments, rank, ranks)        the slices of one rank
///   size_bytes(), part(at, bytes)     how it is cut into pieces
namespace cohort {

/// What the ranks of a call have counts for.
enum class Counts : std::uint8_t {
  one,    ///< the same for all: a vector, or a block of each rank
  ranks,  ///< the block of each rank has its own
  pairs,  ///< what each rank gives to each: ranks x ranks, by giver, then by taker
};
[[nodiscard]] constexpr std::size_t how_many(Counts counts, Rank ranks) noexcept {
  if (counts == Counts::one) return 0;
  return counts == Counts::ranks ? ranks : std::size_t{ranks} * ranks;
}

/// Who needs whom: the ranks that what a rank gets depends on.
enum class Flow : std::uint8_t {
  everywhere,  ///< all of them, for every rank
  from_root,   ///< the root, for every rank
  to_root,     ///< all of them, for the root; nobody, for the others
  upwards,     ///< the lower ones
};

/// A call as far as buffers and results depend on it. Counts are in elements.
struct Form {
  std::size_t count = 0;  ///< of a vector or block; of the largest block where they differ
  Rank ranks = 1;
  Rank root = 0;
  std::span<const std::size_t> counts{};  ///< as Counts says; empty: all are `count`

  /// Of Counts::ranks, and what lies before that rank's block.
  [[nodiscard]] std::size_t of(Rank rank) const noexcept { return counts.empty() ? count : counts[rank]; }
  [[nodiscard]] std::size_t before(Rank rank) const noexcept {
    if (counts.empty()) return rank * count;
    return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
  }
  /// Of Counts::pairs. What one gives, and what one takes, lies in the order of the others.
  [[nodiscard]] std::size_t between(Rank giver, Rank taker) const noexcept {
    return counts.empty() ? count : counts[std::size_t{giver} * ranks + taker];
  }
  [[nodiscard]] std::size_t given_before(Rank giver, Rank taker) const noexcept {
    if (counts.empty()) return taker * count;
    std::size_t sum = 0;
    for (Rank rank = 0; rank < taker; ++rank) sum += between(giver, rank);
    return sum;
  }
  [[nodiscard]] std::size_t taken_before(Rank taker, Rank giver) const noexcept {
    if (counts.empty()) return giver * count;
    std::size_t sum = 0;
    for (Rank rank = 0; rank < giver; ++rank) sum += between(rank, taker);
    return sum;
  }
};

/// Elements that a rank gives and gets. Of a form with a count of one: how buffers relate to counts.
struct Extent {
  std::size_t send = 0;
  std::size_t recv = 0;
};

/// Elements of a rank's input: a stretch of it.
struct Stretch {
  std::size_t at = 0;
  std::size_t elements = 0;
};

/// Elements of a rank's input and of its output that lie in one place where an operation is done in place.
struct InPlace {
  std::size_t send_at = 0;
  std::size_t recv_at = 0;
};

/// A stretch of one rank's result: the combination, in rank order, of the same stretch of the inputs of ranks
/// [first, end); of one rank alone, its input as it is.
struct ResultPart {
  std::size_t at = 0;  ///< first element of the result
  std::size_t elements = 0;
  Rank first = 0;
  Rank end = 1;
  std::size_t from = 0;  ///< first element in each of those inputs

  [[nodiscard]] bool is_combined() const noexcept { return end - first > 1; }
  bool operator==(const ResultPart&) const = default;
};
using Result = std::vector<ResultPart>;

/// What an operator's slices are made from. In bytes but for what is named otherwise.
struct OperatorArguments {
  std::size_t count = 0;  ///< elements, as in Form
  std::size_t element_bytes = 1;
  Combine combine{};
  Rank root = 0;
  std::span<const std::size_t> counts{};

  [[nodiscard]] std::size_t bytes() const noexcept { return count * element_bytes; }
  [[nodiscard]] Form form(Rank ranks) const noexcept { return {count, ranks, root, counts}; }
};

}  // namespace cohort
