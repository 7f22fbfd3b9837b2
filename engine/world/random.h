// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort::world {

/// Numbers that depend on their seed alone, the same on every machine (SplitMix64, Steele et al. 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  /// From 0 to below `end`, which is not 0. The bias of a division does not matter here.
  std::uint64_t below(std::uint64_t end) noexcept { return next() % end; }
  /// From `first` to `last`.
  std::uint64_t between(std::uint64_t first, std::uint64_t last) noexcept {
    return first + below(last - first + 1);
  }
  bool chance(unsigned percent) noexcept { return below(100) < percent; }
  template <class T, std::size_t N>
  const T& pick(const T (&choices)[N]) noexcept {
    return choices[below(N)];
  }
  template <class T>
  void shuffle(std::span<T> items) noexcept {
    for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[below(left)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace cohort::world
