// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/assert.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  slot,     ///< what a rank brought with its arrival at its host's ranks
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
  /// A window of blocks, each of `block_bytes` and not empty, that lie apart: no slice spans two of them.
  /// They outlive what is asked for here.
  void bind_blocks(WindowId window, std::span<std::byte* const> blocks, std::size_t block_bytes) noexcept {
    entries_[static_cast<std::size_t>(window)] = {nullptr, blocks.size() * block_bytes, blocks.data(),
                                                  block_bytes};
  }
  [[nodiscard]] bool contains(const Slice& slice) const noexcept {
    const Entry& entry = entries_[static_cast<std::size_t>(slice.window)];
    const bool is_inside = slice.offset <= entry.bytes && slice.bytes <= entry.bytes - slice.offset;
    return is_inside && (entry.blocks == nullptr || is_in_one_block(entry, slice));
  }
  /// The address of a slice; asserts that it lies inside its window, and in one block of it.
  [[nodiscard]] std::byte* at(const Slice& slice) const noexcept {
    COHORT_ASSERT(contains(slice), "slice {}[{}, +{}) lies outside its window of {} bytes, or of its blocks",
                  to_string(slice.window), slice.offset, slice.bytes, size_bytes(slice.window));
    const Entry& entry = entries_[static_cast<std::size_t>(slice.window)];
    if (entry.blocks != nullptr) [[unlikely]]
      return entry.blocks[slice.offset / entry.block_bytes] + slice.offset % entry.block_bytes;
    return entry.base + slice.offset;
  }
  [[nodiscard]] std::size_t size_bytes(WindowId window) const noexcept {
    return entries_[static_cast<std::size_t>(window)].bytes;
  }

 private:
  struct Entry {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    std::byte* const* blocks = nullptr;  ///< where they lie apart, and there is no base
    std::size_t block_bytes = 0;
  };

  [[nodiscard]] static bool is_in_one_block(const Entry& entry, const Slice& slice) noexcept {
    return slice.offset < entry.bytes && slice.bytes <= entry.block_bytes - slice.offset % entry.block_bytes;
  }

  std::array<Entry, kWindows> entries_;
};

}  // namespace cohort
