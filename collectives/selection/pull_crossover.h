// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/engine/tuning.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace cohort {

/// What a collective between private buffers took both ways, on the slowest rank.
struct PullTimes {
  std::size_t bytes = 0;  ///< of a block, or a share: what one rank reads of another in one go
  double staged_us = 0;   ///< through the CCL buffers
  double pulled_us = 0;   ///< the kernel copies from process to process
};

/// What becomes of the bytes that ranks read of each other, or write to each other: what staging them costs
/// besides differs.
enum class PullUse : std::uint8_t {
  to_one,     ///< each goes to one rank, and all have some: staged, it is copied twice, pulled once
  rooted,     ///< the same of one rank's memory: staged, that rank copies all of it, pulled, nothing
  to_all,     ///< all ranks take it, and all have some: it is staged once for all of them
  broadcast,  ///< the same of one rank's memory: pulled, all read the same pages at the same time
  combined,  ///< staged, it is read in passing while it is combined; pulled, it is written and read once more
};
inline constexpr std::size_t kPullUses = 5;

/// Of two ranks the one is all.
[[nodiscard]] PullUse pull_use_of(Operator op, Rank ranks) noexcept;

/// Into how many parts a vector is cut, of which one rank reads one of each other in one go: 1, but for what
/// all combine.
[[nodiscard]] Rank pulled_shares_of(Operator op, Rank ranks) noexcept;

/// Of which sizes the kernel copies between private buffers of ranks of one host, for each use. Measured when
/// the communicator is made, by the ranks together, and the same on all of them.
class PullCrossover {
 public:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  static constexpr std::array<std::size_t, 4> kSizes = {16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024};
  /// It must be clearly faster. Several ranks that pull from one process get into each other's way in the
  /// kernel, the more so the more they are beyond what was measured.
  [[nodiscard]] static constexpr double least_gain(PullUse use) noexcept {
    return use == PullUse::to_one || use == PullUse::rooted ? tuning::choosing::kLeastGainOfKernel
                                                            : tuning::choosing::kLeastGainOfKernelToAll;
  }

  /// If it takes so many times as long as staging, larger blocks need not be tried.
  static constexpr double kIsLost = tuning::choosing::kLost;

  /// Whether blocks, or shares, of so many bytes are pulled: if it won clearly at the largest size that was
  /// measured up to there. Where it wins for small and for large ones it may lose in between: readers of one
  /// page table wait for each other, and large buffers lie on huge pages.
  [[nodiscard]] bool pulls(PullUse use, std::size_t bytes) const noexcept;
  /// From which size on all are; kNever if none is.
  [[nodiscard]] std::size_t from_bytes(PullUse use) const noexcept { return of(use).from_bytes; }
  /// Sizes that are pulled, from the first one to below the second; kNever: to the largest.
  struct Range {
    std::size_t from;
    std::size_t below;
    bool operator==(const Range&) const = default;
  };
  [[nodiscard]] std::vector<Range> ranges(PullUse use) const;
  [[nodiscard]] const std::vector<PullTimes>& measured(PullUse use) const noexcept {
    return of(use).measured;
  }

  /// Takes the times of rising sizes.
  void take(PullUse use, const std::vector<PullTimes>& rising);
  /// The same of a use that may have been taken before: of each time the least counts.
  void renew(PullUse use, const std::vector<PullTimes>& rising);
  /// Where combining did not win clearly at the largest size that was measured, but was no slower, it begins
  /// with shares as large as a core's cache, and larger than any that is measured: what was staged has left
  /// it then, and is read from afar.
  void combine_beyond(std::size_t core_cache_bytes) noexcept;
  /// Instead of measuring; kNever where it is not allowed.
  void set_from(std::size_t bytes) noexcept;
  /// Whether it was measured, or set.
  [[nodiscard]] bool is_settled() const noexcept { return is_settled_; }

 private:
  struct OfUse {
    std::size_t from_bytes = kNever;
    std::vector<PullTimes> measured;
  };
  [[nodiscard]] const OfUse& of(PullUse use) const noexcept { return uses_[static_cast<std::size_t>(use)]; }
  [[nodiscard]] OfUse& of(PullUse use) noexcept { return uses_[static_cast<std::size_t>(use)]; }

  bool is_settled_ = false;
  std::array<OfUse, kPullUses> uses_;
};

/// From which size on the kernel copies a message between private buffers; smaller ones come in pieces: as
/// blocks of which each goes to one rank, where that was measured. `told_bytes`: what the options say; 0:
/// nothing.
///
/// Pieces are copied by both ends at once, which is faster than the kernel's one copy between near cores, and
/// slower between far ones, whose lines it takes over once in place of twice, or where ranks share a core.
/// Where nothing was measured, as with several hosts, that alone decides.
[[nodiscard]] std::size_t messages_pull_from(std::size_t told_bytes, double engines_per_core,
                                             const PullCrossover& measured) noexcept;

}  // namespace cohort
