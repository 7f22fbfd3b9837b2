// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/exec.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cohort {

/// Who has something to pass through memory that others read.
enum class Givers : std::uint8_t { all, root };

/// Whether what all ranks of a host leave for each other goes round rings: many that share cores push each
/// other's lines out of caches instead.
[[nodiscard]] constexpr bool goes_round(std::size_t ranks_of_host, bool has_core_each) noexcept {
  return has_core_each || ranks_of_host <= tuning::stages::kMostRanksOfRing;
}

/// Around how much of each rank's memory it goes, so that a place is written again when peers' caches have
/// let go of what they read there: lines that another core still shares are taken back one by one. 0: it
/// stays where it is.
[[nodiscard]] constexpr std::size_t ring_bytes(Rank ranks, bool goes_round, Givers givers) noexcept {
  if (givers == Givers::root) return tuning::stages::kRing;
  return goes_round ? 2 * tuning::stages::kRing / ranks : 0;
}
/// The same on every rank.
[[nodiscard]] inline std::size_t ring_bytes(const Exec& x, Givers givers) noexcept {
  return ring_bytes(x.size(), x.plan().goes_round, givers);
}

/// How a message passes through a CCL buffer, piece by piece: while peers read one piece, the next is filled
/// in, so that one phase per piece is enough. Pieces take two places in turn; those of a message that the
/// ring has room for go round it, on from where an earlier call of that size ended.
class Staging {
 public:
  /// Of messages of `message_bytes` that every rank has, or blocks of them, of which so many pass through
  /// side by side. The same on all ranks.
  Staging(const Exec& x, std::size_t message_bytes, std::size_t element_bytes, Rank blocks = 1) noexcept
      : Staging(x, Givers::all, x.plan().stage_bytes, message_bytes, element_bytes, blocks) {}
  /// The same where only one rank has something to give: its part of the caches is everybody's.
  [[nodiscard]] static Staging of_root(const Exec& x, std::size_t message_bytes, std::size_t element_bytes,
                                       Rank blocks = 1) noexcept {
    const std::size_t stage_bytes = stage_bytes_of_root(x, blocks * message_bytes);
    return {x, Givers::root, stage_bytes, message_bytes, element_bytes, blocks};
  }

  [[nodiscard]] std::size_t pieces() const noexcept {
    return (message_bytes_ + piece_bytes_ - 1) / piece_bytes_;
  }
  [[nodiscard]] std::size_t offset(std::size_t piece) const noexcept { return piece * piece_bytes_; }
  [[nodiscard]] std::size_t bytes(std::size_t piece) const noexcept {
    return std::min(piece_bytes_, message_bytes_ - offset(piece));
  }
  /// Where in the CCL buffer that piece lies, of all blocks.
  [[nodiscard]] std::size_t place(std::size_t piece) const noexcept {
    return (first_ + piece) % places_ * place_bytes_;
  }

 private:
  static constexpr std::size_t kGrain = 64;
  static constexpr std::size_t kLeastPlaces = 2;
  /// Where each rank has a core, half of the message, which passes through in four pieces then, so that
  /// others read one while the next is copied.
  [[nodiscard]] static std::size_t stage_bytes_of_root(const Exec& x, std::size_t message_bytes) noexcept {
    const std::size_t most = std::min(x.ccl_bytes(), x.size() * x.plan().stage_bytes);
    const std::size_t least =
        std::max(tuning::stages::kLeastOfRoot, x.size() * tuning::stages::kLeastOfRootPerRank);
    return x.plan().has_core_each() ? std::min(most, std::max(least, message_bytes / 2)) : most;
  }

  Staging(const Exec& x, Givers givers, std::size_t stage_bytes, std::size_t message_bytes,
          std::size_t element_bytes, Rank blocks) noexcept
      : piece_bytes_(stage_bytes / blocks / 2 / kGrain * kGrain / element_bytes * element_bytes),
        message_bytes_(message_bytes),
        place_bytes_(blocks * in_grains(std::min(piece_bytes_, message_bytes))) {
    COHORT_ASSERT(piece_bytes_ != 0, "half of a stage of {} bytes holds no element of {} bytes, {} times",
                  stage_bytes, element_bytes, blocks);
    // What is larger than the ring drives old lines out by itself.
    const std::size_t ring = std::min(x.ccl_bytes(), ring_bytes(x, givers));
    if (blocks * message_bytes > ring) return;
    places_ = std::max(kLeastPlaces, ring / place_bytes_);
    first_ = x.plan().staged_calls * pieces() % places_;
  }

  [[nodiscard]] static std::size_t in_grains(std::size_t bytes) noexcept {
    return std::max(kGrain, (bytes + kGrain - 1) / kGrain * kGrain);
  }

  std::size_t piece_bytes_;
  std::size_t message_bytes_;
  std::size_t place_bytes_;
  std::size_t places_ = kLeastPlaces;
  std::size_t first_ = 0;
};

}  // namespace cohort
