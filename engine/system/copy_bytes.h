// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/tuning.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cohort {

namespace detail {

/// By the string instruction, `rep movsb`; where there is none, and under sanitizers, which do not see it, as
/// std::memcpy.
void copy_by_string(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

/// By vectors: in pieces below the least size from which the C library takes the string instruction.
inline void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::size_t piece = tuning::copying::kVectorPiece;
  asm volatile("" : "+r"(piece));  // a constant would be copied inline, by `rep movs`
  for (; bytes > piece; bytes -= piece, to += piece, from += piece) std::memcpy(to, from, piece);
  if (bytes != 0) std::memcpy(to, from, bytes);
}

/// Whether the string instruction is fast here, wherever bytes lie. Tried when first asked, once in a
/// process, for some ten microseconds.
[[nodiscard]] bool is_string_fast() noexcept;

/// Its first and its last Word, which may overlap.
template <class Word>
inline void copy_both_ends(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  Word first{};
  Word last{};
  std::memcpy(&first, from, sizeof(Word));
  std::memcpy(&last, from + bytes - sizeof(Word), sizeof(Word));
  std::memcpy(to, &first, sizeof(Word));
  std::memcpy(to + bytes - sizeof(Word), &last, sizeof(Word));
}

}  // namespace detail

/// std::memcpy for what may be large: of regions that do not overlap; without bytes, null will do.
///
/// What is large goes by the string instruction, which takes lines over from another core without fetching
/// what it is about to overwrite. On some processors (AMD's of family 25) it takes many times as long as
/// vectors, depending on where source and destination begin, and malloc() puts large blocks just there: so it
/// is tried first.
inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes >= tuning::copying::kStringFrom && detail::is_string_fast())
    detail::copy_by_string(to, from, bytes);
  else
    detail::copy_by_vectors(to, from, bytes);
}

/// The same for at most 32 bytes, which a call of the C library would take longer for than for the bytes.
inline void copy_few_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes >= 16) return detail::copy_both_ends<std::array<std::uint64_t, 2>>(to, from, bytes);
  if (bytes >= 8) return detail::copy_both_ends<std::uint64_t>(to, from, bytes);
  if (bytes >= 4) return detail::copy_both_ends<std::uint32_t>(to, from, bytes);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
}

}  // namespace cohort
