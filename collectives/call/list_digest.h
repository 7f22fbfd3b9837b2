// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace cohort {

/// What stands in a signature for the sizes of many tensors: 48 bits that differ where the sizes do, and tell
/// which tensor it is where it is one.
///
/// How many there are, and two sums over GF(p), of the counts and of the counts times a weight that belongs
/// to the place: of a change at one place the second is its weight times the first, as in a code that
/// corrects one error.
///
/// Lists that differ at several places are alike for one pair in 2^36, of permutations of one list for one in
/// 2^18.
///
/// A change by a multiple of p at one place is not seen here: such a tensor is so large that it runs by
/// itself, and is signed by its count, or, in a call's first message, by how often p goes into it.
class ListDigest {
 public:
  /// More tensors than that are told apart by their sizes only, and none of them is named.
  static constexpr std::size_t kMostNamed = 4095;
  static constexpr unsigned kBits = 48;
  /// p: the largest prime below 2^18.
  static constexpr std::uint64_t kModulus = 262139;

  explicit ListDigest(std::span<const std::size_t> counts) noexcept;
  /// Of so many whose sizes are not known yet, for its size().
  [[nodiscard]] static ListDigest of_size(std::size_t size) noexcept;
  /// From a signature, which may be a peer's.
  [[nodiscard]] static ListDigest of_bits(std::uint64_t bits) noexcept;

  [[nodiscard]] std::uint64_t bits() const noexcept;
  /// At most kMostNamed.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The one tensor whose size differs; nothing if there are several, or if it cannot be told.
  [[nodiscard]] std::optional<std::size_t> differing_from(const ListDigest& other) const noexcept;

 private:
  ListDigest() = default;

  std::uint32_t size_ = 0;
  std::uint32_t sum_ = 0;
  std::uint32_t weighted_sum_ = 0;
};

}  // namespace cohort
