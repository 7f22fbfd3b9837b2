// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cohort::bindings::hccl {

/// A block for each rank in one buffer, in the library's elements.
struct Blocks {
  std::byte* first = nullptr;
  std::vector<std::size_t> counts;
  std::vector<std::size_t> at;  ///< where each begins
  std::size_t element_bytes = 1;

  /// Whether one begins where the one before ends, from the start: as the library has them.
  [[nodiscard]] bool are_packed() const noexcept;
  /// Of all of them.
  [[nodiscard]] std::size_t size_bytes() const noexcept;
  /// The buffer as it is. Requires are_packed().
  [[nodiscard]] std::span<std::byte> whole() const noexcept { return {first, size_bytes()}; }
  void copy_to(std::span<std::byte> packed) const noexcept;
  void copy_from(std::span<const std::byte> packed) const noexcept;
};

}  // namespace cohort::bindings::hccl
