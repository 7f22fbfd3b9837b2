// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/assert.h>

#include <algorithm>
#include <cstddef>

namespace cohort {

/// How a message passes through the two halves of a CCL buffer, piece by piece: while peers read one half,
/// the other is filled, so that one phase per piece is enough.
class Staging {
 public:
  Staging(std::size_t stage_bytes, std::size_t message_bytes, std::size_t element_bytes) noexcept
      : half_bytes_(stage_bytes / 2 / kGrain * kGrain),
        piece_bytes_(half_bytes_ / element_bytes * element_bytes),
        message_bytes_(message_bytes) {
    COHORT_ASSERT(piece_bytes_ != 0, "half of a stage of {} bytes holds no element of {} bytes", stage_bytes,
                  element_bytes);
  }

  [[nodiscard]] std::size_t pieces() const noexcept {
    return (message_bytes_ + piece_bytes_ - 1) / piece_bytes_;
  }
  [[nodiscard]] std::size_t offset(std::size_t piece) const noexcept { return piece * piece_bytes_; }
  [[nodiscard]] std::size_t bytes(std::size_t piece) const noexcept {
    return std::min(piece_bytes_, message_bytes_ - offset(piece));
  }
  /// Where in the CCL buffer that piece lies.
  [[nodiscard]] std::size_t half(std::size_t piece) const noexcept { return piece % 2 * half_bytes_; }

 private:
  static constexpr std::size_t kGrain = 64;

  std::size_t half_bytes_;
  std::size_t piece_bytes_;
  std::size_t message_bytes_;
};

}  // namespace cohort
