// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/assert.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort::wire {

/// Writes fields one after another into a message of fixed size: little-endian, no padding, the rest stays as
/// it was. Too many fields for the message is a bug: asserts.
class Writer {
 public:
  explicit Writer(std::span<std::byte> message) noexcept : rest_(message) {}

  template <std::unsigned_integral T>
  void put(T value) {
    for (std::byte& byte : take(sizeof(T))) {
      byte = static_cast<std::byte>(value);
      value = static_cast<T>(static_cast<std::uint64_t>(value) >> 8);
    }
  }
  void put(std::span<const std::byte> bytes) { std::ranges::copy(bytes, take(bytes.size()).begin()); }
  /// A field of so many bytes, filled with zeros; what does not fit is cut.
  void put_text(std::string_view text, std::size_t field_bytes) {
    const std::span<std::byte> field = take(field_bytes);
    std::ranges::fill(field, std::byte{0});
    std::ranges::copy(std::as_bytes(std::span(text.substr(0, field_bytes))), field.begin());
  }

 private:
  std::span<std::byte> take(std::size_t bytes) {
    COHORT_ASSERT(bytes <= rest_.size(), "a field of {} bytes, {} are left", bytes, rest_.size());
    const std::span<std::byte> field = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return field;
  }

  std::span<std::byte> rest_;
};

/// Reads the same fields. The message has its full size, so this cannot fail; what the values mean is the
/// caller's to check.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> message) noexcept : rest_(message) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T get() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (const std::byte byte : take(sizeof(T))) {
      value |= std::to_integer<std::uint64_t>(byte) << shift;
      shift += 8;
    }
    return static_cast<T>(value);
  }
  void get(std::span<std::byte> into) { std::ranges::copy(take(into.size()), into.begin()); }
  /// Up to the first zero byte of the field. Its letters are whatever the sender wrote.
  [[nodiscard]] std::string get_text(std::size_t field_bytes) {
    std::string text;
    for (const std::byte byte : take(field_bytes)) {
      if (byte == std::byte{0}) break;
      text.push_back(static_cast<char>(byte));
    }
    return text;
  }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    COHORT_ASSERT(bytes <= rest_.size(), "a field of {} bytes, {} are left", bytes, rest_.size());
    const std::span<const std::byte> field = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return field;
  }

  std::span<const std::byte> rest_;
};

}  // namespace cohort::wire
