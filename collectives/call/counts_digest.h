// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace cohort {

/// What stands in a signature for the counts of a call that has one for each rank, or for each pair of ranks:
/// 48 bits that differ where the counts do, and tell which count it is where it is one.
///
/// Two sums modulo 2^24 of the counts, each hashed: as they are, and times an odd weight of the place, as in
/// a code that corrects one error.
///
/// Lists that differ in one count are alike for one pair in 2^24, two counts that were exchanged for one in
/// 2^19, other lists for one in 2^40 or less: that one place can be named takes half of the bits.
class CountsDigest {
 public:
  /// The count of the next place.
  void add(std::size_t count) noexcept;

  /// From a signature, which may be a peer's.
  [[nodiscard]] static CountsDigest of_bits(std::uint64_t bits) noexcept;
  [[nodiscard]] std::uint64_t bits() const noexcept;
  /// The one place, of so many, whose count differs; nothing if there are several, or if it cannot be told.
  [[nodiscard]] std::optional<std::size_t> differing_from(const CountsDigest& other,
                                                          std::size_t places) const noexcept;

 private:
  std::uint32_t places_ = 0;
  std::uint32_t sum_ = 0;
  std::uint32_t weighted_sum_ = 0;
};

}  // namespace cohort
