// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/slice.h>

namespace cohort {

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

 private:
  Slice whole_;
  std::size_t block_bytes_;
};

}  // namespace cohort
