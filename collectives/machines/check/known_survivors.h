// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/mutants.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <span>
#include <string_view>

namespace cohort::check {

/// A few values, in a constant.
template <class T>
class OneOf {
 public:
  template <std::convertible_to<T>... Values>
  constexpr explicit OneOf(Values... values) noexcept : values_{values...}, size_(sizeof...(values)) {}
  [[nodiscard]] constexpr const T* begin() const noexcept { return values_.data(); }
  [[nodiscard]] constexpr const T* end() const noexcept { return begin() + size_; }
  [[nodiscard]] constexpr bool has(const T& value) const noexcept {
    return std::ranges::find(*this, value) != end();
  }

 private:
  std::array<T, 4> values_{};
  std::size_t size_;
};

/// Mutants of the library that nothing is wrong with, and why they differ all the same.
struct KnownSurvivor {
  OneOf<std::string_view> ops;
  std::string_view algorithm;
  OneOf<ChangeKind> kinds;
  TaskKind task{};
  std::string_view reason;
  bool (*is_such)(const Case&, const Mutant&) = nullptr;  ///< which of these; null: all of them
};
[[nodiscard]] std::span<const KnownSurvivor> known_survivors() noexcept;

[[nodiscard]] bool is_known_survivor(const Case& one, const Mutant& mutant);

}  // namespace cohort::check
