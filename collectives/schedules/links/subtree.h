// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/tree.h>

namespace cohort {

/// The blocks of a rank and of those that follow it around the ring: what a subtree has, and what goes over
/// the link above it in one message. Below the root they are packed, one behind the other.
template <class Op>
class Subtree {
 public:
  Subtree(const Exec& x, const Op& op, Rank first, Rank ranks) noexcept
      : op_(op), first_(first), ranks_(ranks), size_(x.size()) {}

  [[nodiscard]] Rank ranks() const noexcept { return ranks_; }
  /// In the root's window, of the rank `index` behind the first.
  [[nodiscard]] Slice block(Rank index) const noexcept { return op_.block((first_ + index) % size_); }
  [[nodiscard]] std::size_t bytes_before(Rank index) const noexcept {
    std::size_t bytes = 0;
    for (Rank i = 0; i < index; ++i) bytes += block(i).bytes;
    return bytes;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_before(ranks_); }
  /// The same block, of those that are packed from `packed` on.
  [[nodiscard]] Slice packed_block(const Slice& packed, Rank index) const noexcept {
    return packed.part(bytes_before(index), block(index).bytes);
  }
  /// Whether they lie side by side in the root's window: whole() then.
  [[nodiscard]] bool lies_together() const noexcept {
    return ranks_ == 1 || (op_.blocks.is_whole() && first_ + ranks_ <= size_);
  }
  [[nodiscard]] Slice whole() const noexcept {
    const Slice first = block(0);
    return {first.window, first.offset, bytes()};
  }

 private:
  const Op& op_;
  const Rank first_;
  const Rank ranks_;
  const Rank size_;
};

/// Ranks of the largest subtree below the root, whose blocks somebody has to pack; 0 where no subtree has
/// two.
[[nodiscard]] inline Rank largest_packed_subtree(Rank ranks) noexcept {
  const Rank half = std::bit_ceil(ranks) / 2;
  const Rank most = std::max(half / 2, ranks - half);
  return most > 1 ? most : 0;
}

/// Of schedules that move a Subtree over each link of a tree.
[[nodiscard]] inline Needs needs_of_subtrees(std::size_t bytes, Rank ranks) noexcept {
  return {.links_to_all = true, .scratch_bytes = bytes * largest_packed_subtree(ranks)};
}
[[nodiscard]] inline std::size_t largest_piece_of_subtrees(std::size_t buffer_bytes, Rank ranks) noexcept {
  const Rank packed = largest_packed_subtree(ranks);
  return packed == 0 ? kWholeMessage : buffer_bytes / packed;
}

}  // namespace cohort
