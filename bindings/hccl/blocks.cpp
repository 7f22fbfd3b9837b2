// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/blocks.h>

#include <cstring>
#include <numeric>

namespace cohort::bindings::hccl {

bool Blocks::are_packed() const noexcept {
  std::size_t end = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] != 0 && at[rank] != end) return false;
    end += counts[rank];
  }
  return true;
}

std::size_t Blocks::size_bytes() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0}) * element_bytes;
}

void Blocks::copy_to(std::span<std::byte> packed) const noexcept {
  std::byte* to = packed.data();
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const std::size_t bytes = counts[rank] * element_bytes;
    if (bytes != 0) std::memcpy(to, first + at[rank] * element_bytes, bytes);
    to += bytes;
  }
}

void Blocks::copy_from(std::span<const std::byte> packed) const noexcept {
  const std::byte* from = packed.data();
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const std::size_t bytes = counts[rank] * element_bytes;
    if (bytes != 0) std::memcpy(first + at[rank] * element_bytes, from, bytes);
    from += bytes;
  }
}

}  // namespace cohort::bindings::hccl
