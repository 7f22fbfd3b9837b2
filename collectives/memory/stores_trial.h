// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/engine/clock.h>
#include <cohort/engine/tuning.h>

#include <array>
#include <cstddef>

namespace cohort {

/// Whether a large call had better write its results past the caches, found by doing both: what a machine
/// says of its last level may be another one's, and others use it as well.
///
/// What is about as large as the cache still has most of its lines there, and is read by other ranks from it;
/// what is larger only drives others out.
///
/// The first calls of a kind and size go both ways in turn, on all ranks alike, the faster way serves the
/// following ones, and after a while both are tried again.
///
/// Threads: one.
class StoresTrial {
 public:
  /// `cache_bytes`: a first guess.
  explicit StoresTrial(std::size_t cache_bytes) noexcept : cache_bytes_(cache_bytes) {}

  /// Whether it makes a difference to a call that touches so much, by all ranks.
  [[nodiscard]] bool is_about(std::size_t footprint_bytes) const noexcept {
    return footprint_bytes > cache_bytes_ / 2;
  }
  /// Such a call begins; `kind`: whatever calls have in common that take about as long for a byte.
  [[nodiscard]] Stores begin(std::size_t kind, std::size_t footprint_bytes, TimePoint now) noexcept;
  [[nodiscard]] bool is_running() const noexcept { return running_ != nullptr; }
  /// It is over. Not for one that has failed.
  void end(TimePoint now) noexcept;

  static constexpr unsigned kTries = 3;  ///< of each way: the shortest counts
  static constexpr unsigned kPeriod = 512;
  /// How much faster the other way has to be.
  static constexpr double kGain = tuning::copying::kLeastGainOfStreaming;

 private:
  struct Kind {
    std::size_t kind = 0;
    int size_class = 0;
    Stores stores = Stores::cached;  ///< while nothing is tried
    unsigned calls = 0;              ///< since both were tried
    double own_ns_per_byte = 0;      ///< of `stores`
    double other_ns_per_byte = 0;
  };
  [[nodiscard]] Kind& find(std::size_t kind, std::size_t footprint_bytes) noexcept;

  static constexpr std::size_t kKinds = 64;  ///< that are remembered

  const std::size_t cache_bytes_;
  std::array<Kind, kKinds> kinds_{};
  // Of the call that runs:
  Kind* running_ = nullptr;
  std::size_t bytes_ = 0;
  TimePoint began_{};
};

}  // namespace cohort
