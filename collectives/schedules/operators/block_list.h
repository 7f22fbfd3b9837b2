// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/description.h>

#include <algorithm>

namespace cohort {

/// The part of a slice from `at`, at most `bytes` long, as far as the slice goes: where blocks differ, the
/// shorter ones are over before the longest.
[[nodiscard]] inline Slice clipped(const Slice& slice, std::size_t at, std::size_t bytes) noexcept {
  const std::size_t begin = std::min(at, slice.bytes);
  return slice.part(begin, std::min(bytes, slice.bytes - begin));
}

/// A block of each rank in one window, one behind the other: as large as each other, or each of its own
/// count; or the same part of every one of them.
class BlockList {
 public:
  BlockList() = default;
  BlockList(WindowId window, const OperatorArguments& of) noexcept
      : window_(window),
        block_bytes_(of.bytes()),
        element_bytes_(of.element_bytes),
        counts_(of.counts),
        part_bytes_(of.bytes()) {}

  [[nodiscard]] Slice operator[](Rank of) const noexcept {
    if (counts_.empty()) return {window_, of * block_bytes_ + at_, part_bytes_};
    const Form form{.counts = counts_};
    const Slice whole{window_, form.before(of) * element_bytes_, form.of(of) * element_bytes_};
    return clipped(whole, at_, part_bytes_);
  }
  /// Of that rank's block, without a look at those before it.
  [[nodiscard]] std::size_t bytes_of(Rank rank) const noexcept {
    if (counts_.empty()) return part_bytes_;
    const Slice whole{window_, 0, Form{.counts = counts_}.of(rank) * element_bytes_};
    return clipped(whole, at_, part_bytes_).bytes;
  }
  /// Of the largest.
  [[nodiscard]] std::size_t size_bytes() const noexcept { return part_bytes_; }
  /// Whether they lie side by side, with nothing between them.
  [[nodiscard]] bool is_whole() const noexcept { return part_bytes_ == block_bytes_; }
  [[nodiscard]] BlockList part(std::size_t at, std::size_t bytes) const noexcept {
    BlockList result = *this;
    result.at_ += at;
    result.part_bytes_ = bytes;
    return result;
  }

 private:
  WindowId window_ = WindowId::send;
  std::size_t block_bytes_ = 0;  ///< of the largest, whole
  std::size_t element_bytes_ = 1;
  std::span<const std::size_t> counts_;
  std::size_t at_ = 0;
  std::size_t part_bytes_ = 0;
};

}  // namespace cohort
