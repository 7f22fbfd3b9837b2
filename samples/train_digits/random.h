// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace cohort::samples {

/// A small seeded source of random numbers: the same seed gives the same numbers with every compiler and
/// library. The standard's distributions and std::shuffle do not promise that, and ranks must agree without
/// talking.
///
/// Source: SplitMix64, G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014.
class Random {
 public:
  explicit Random(uint64_t seed) noexcept : state_(seed) {}

  uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// From 0 to bound - 1. The bias is below bound / 2^32.
  uint32_t below(uint32_t bound) noexcept { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }

  /// From -limit up to, not including, +limit.
  float symmetric(float limit) noexcept {
    const float unit = static_cast<float>(next() >> 40) * 0x1p-24f;
    return (2.0f * unit - 1.0f) * limit;
  }

  /// Fisher-Yates.
  void shuffle(std::span<uint32_t> values) noexcept {
    for (std::size_t left = values.size(); left > 1; --left) {
      std::swap(values[left - 1], values[below(static_cast<uint32_t>(left))]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace cohort::samples
