// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>
#include <cohort/collectives/schedules/reduce_op.h>
#include <cohort/net/rank.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort::bench {

/// Test data repeats after a prime number of elements, so that a block in a wrong place shows.
inline constexpr std::size_t kPeriod = 61;

/// An endless sequence of elements that repeats every kPeriod of them.
class Pattern {
 public:
  /// Whole numbers, or what the type makes of others: fractions are cut off for integers.
  Pattern(DataType type, const std::array<double, kPeriod>& values);

  /// Fills `to` with the elements from number `first` on.
  void write(std::span<std::byte> to, std::uint64_t first) const;
  /// How many of `values` are not, bit for bit, the elements from number `first` on.
  [[nodiscard]] std::size_t count_wrong(std::span<const std::byte> values, std::uint64_t first) const;

 private:
  [[nodiscard]] std::span<const std::byte> chunk(std::uint64_t first) const noexcept;

  std::size_t element_bytes_;
  std::vector<std::byte> elements_;
};

/// What one rank contributes, and what the contributions of all become: small whole numbers, so that results
/// are exact in any order of combination. In iteration s, element i of rank r is number i + first_of(r, s) of
/// `input`, and element i of the combination of all ranks is number i + first_of(0, s) of `combined`.
struct TestData {
  TestData(DataType type, ReduceOp op, Rank ranks);

  [[nodiscard]] static std::uint64_t first_of(Rank rank, std::uint64_t sequence) noexcept {
    return rank * std::uint64_t{17} + sequence * 5;
  }

  Pattern input;
  Pattern combined;
};

}  // namespace cohort::bench
