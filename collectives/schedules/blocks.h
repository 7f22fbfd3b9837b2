// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/slice.h>

namespace cohort {

/// Scratch for the shares of all ranks, where these are Blocks of a message of so many bytes.
[[nodiscard]] constexpr std::size_t scratch_for_shares(std::size_t bytes, std::size_t ranks) noexcept {
  // Shares are rounded up to whole elements: one element per rank is enough of a margin.
  constexpr std::size_t kLargestElement = 16;
  return bytes + ranks * kLargestElement;
}

/// A slice cut into nearly equal parts of whole elements; the last ones may be empty.
class Blocks {
 public:
  Blocks(const Slice& whole, std::size_t parts, std::size_t element_bytes) noexcept
      : whole_(whole), block_bytes_((whole.bytes / element_bytes + parts - 1) / parts * element_bytes) {}

  [[nodiscard]] Slice operator[](std::size_t index) const noexcept {
    const std::size_t begin = index * block_bytes_ < whole_.bytes ? index * block_bytes_ : whole_.bytes;
    const std::size_t left = whole_.bytes - begin;
    return whole_.part(begin, left < block_bytes_ ? left : block_bytes_);
  }
  /// For who takes a function of the index.
  [[nodiscard]] Slice operator()(std::size_t index) const noexcept { return (*this)[index]; }
  /// The part with what lies before it, so that it is as large as the largest.
  [[nodiscard]] Slice filled(std::size_t index) const noexcept {
    const Slice part = (*this)[index];
    const std::size_t largest = (*this)[0].bytes;
    return {part.window, part.offset + part.bytes - largest, largest};
  }

 private:
  Slice whole_;
  std::size_t block_bytes_;
};

}  // namespace cohort
