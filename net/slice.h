// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/assert.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort {

/// The memories that a collective names. The same on every rank, so that a slice of mine means a place of
/// yours.
enum class WindowId : std::uint8_t {
  send,     ///< what the caller gives
  recv,     ///< what the caller gets; both at once when in place
  ccl_in,   ///< the communicator's own input buffer, always reachable by peers
  ccl_out,  ///< the communicator's own output buffer, always reachable by peers
  scratch,  ///< extra memory that the algorithm asked for; local only
  slot,     ///< what a rank brought to the meeting of its host's ranks
};
inline constexpr std::size_t kWindows = 6;
/// Those before slot: what a peer may name over a link.
inline constexpr std::size_t kNamedWindows = 5;

std::string_view to_string(WindowId window) noexcept;

/// The caller's memory, not the communicator's.
[[nodiscard]] constexpr bool is_user_window(WindowId window) noexcept {
  return window == WindowId::send || window == WindowId::recv;
}

/// A part of a window. A value; schedules compute with it and never see an address.
struct Slice {
  Slice() = default;
  Slice(WindowId in_window, std::size_t at_offset, std::size_t size) noexcept
      : window(in_window), offset(at_offset), bytes(size) {}

  /// The part of this slice from `at`, `size` bytes long.
  [[nodiscard]] Slice part(std::size_t at, std::size_t size) const noexcept {
    return {window, offset + at, size};
  }
  [[nodiscard]] bool empty() const noexcept { return bytes == 0; }
  bool operator==(const Slice&) const = default;

  WindowId window = WindowId::send;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Where one rank's windows lie in this process, for the duration of one collective.
class WindowTable {
 public:
  void bind(WindowId window, std::byte* base, std::size_t bytes) noexcept {
    entries_[static_cast<std::size_t>(window)] = {base, bytes};
  }
  [[nodiscard]] bool contains(const Slice& slice) const noexcept {
    const Entry& entry = entries_[static_cast<std::size_t>(slice.window)];
    return slice.offset <= entry.bytes && slice.bytes <= entry.bytes - slice.offset;
  }
  /// The address of a slice; asserts that it lies inside its window.
  [[nodiscard]] std::byte* at(const Slice& slice) const noexcept {
    COHORT_ASSERT(contains(slice), "slice {}[{}, +{}) lies outside its window of {} bytes",
                  to_string(slice.window), slice.offset, slice.bytes, size_bytes(slice.window));
    return entries_[static_cast<std::size_t>(slice.window)].base + slice.offset;
  }
  [[nodiscard]] std::size_t size_bytes(WindowId window) const noexcept {
    return entries_[static_cast<std::size_t>(window)].bytes;
  }

 private:
  struct Entry {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };
  std::array<Entry, kWindows> entries_;
};

}  // namespace cohort
