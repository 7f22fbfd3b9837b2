// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/operators/combine.h>
#include <cohort/net/slice.h>

#include <cstdint>
#include <string_view>
#include <vector>

/// What the library has to know of an operator. Each one is a struct of its own in this folder: its slices,
/// as schedules see them, and these things as static members:
///
///   kName, kHasData, kHasRoot, kCombines, kHasOneBuffer
///   extent(ranks, root, rank)         how counts relate to buffers
///   in_place(count, rank)             what in place means
///   result(form, rank)                what a rank gets, by definition: the reference that the checker,
///                                     soaking, verification and tests compare with
///   bus_factor(ranks), least_traffic(ranks)
///   of(arguments, rank, ranks)        the slices of one rank
///   size_bytes(), part(at, bytes)     how it is cut into pieces
namespace cohort {

/// What a rank gives and gets, as multiples of a call's count: 1 for a vector or block, the number of ranks
/// for a block of each, 0 for nothing.
struct Extent {
  std::size_t send = 0;
  std::size_t recv = 0;
};

/// Elements of a rank's input and of its output that lie in one place where an operation is done in place.
struct InPlace {
  std::size_t send_at = 0;
  std::size_t recv_at = 0;
};

/// A call as far as its results depend on it. `count` is in elements.
struct Form {
  std::size_t count = 0;
  Rank ranks = 1;
  Rank root = 0;
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
  std::size_t count = 0;  ///< elements
  std::size_t element_bytes = 1;
  Combine combine{};
  Rank root = 0;

  [[nodiscard]] std::size_t bytes() const noexcept { return count * element_bytes; }
};

}  // namespace cohort
