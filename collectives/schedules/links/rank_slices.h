// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/exec.h>

namespace cohort {

/// A slice for each rank, in rank order, in one vector: those of several ranks are one message.
class VectorSlices {
 public:
  VectorSlices(const Slice& whole, Rank ranks, std::size_t element_bytes) noexcept
      : slices_(whole, ranks, element_bytes) {}

  [[nodiscard]] Rank messages(Rank) const noexcept { return 1; }
  [[nodiscard]] Slice message(Rank first, Rank count, Rank) const noexcept {
    const Slice begin = slices_[first];
    const Slice end = slices_[first + count - 1];
    return {begin.window, begin.offset, end.offset + end.bytes - begin.offset};
  }

 private:
  Blocks slices_;
};

/// The blocks of an all_gather, also of blocks that differ, which lie side by side unless the message was
/// cut: then one message for each.
template <class Op>
class RankBlocks {
 public:
  explicit RankBlocks(const Op& of) noexcept : op_(of) {}

  [[nodiscard]] Rank messages(Rank count) const noexcept { return op_.is_whole() ? 1 : count; }
  [[nodiscard]] Slice message(Rank first, Rank count, Rank index) const noexcept {
    if (!op_.is_whole()) return op_.block(first + index);
    const Slice begin = op_.block(first);
    const Slice end = op_.block(first + count - 1);
    return {begin.window, begin.offset, end.offset + end.bytes - begin.offset};
  }

 private:
  Op op_;
};

/// Moves those of `count` ranks from `first` on, message by message. Links do not meet for an empty one:
/// where all are, a signal goes in their place, so that ranks hear from each other all the same.
template <class Slices, class Move, class Signalling>
Task<> move_slices(const Slices& slices, Rank first, Rank count, Move move, Signalling signal) {
  bool is_empty = true;
  for (Rank i = 0; i < slices.messages(count); ++i) {
    const Slice message = slices.message(first, count, i);
    if (message.empty()) continue;
    is_empty = false;
    co_await move(message);
  }
  if (is_empty) co_await signal();
}

// `slices` outlives the tasks.
template <class Slices>
Task<> send_slices(Link& link, const Slices& slices, Rank first, Rank count, Signal if_empty) {
  auto send = [&link](const Slice& message) { return link.send(message); };
  auto post = [&link, if_empty] { return link.post(if_empty); };
  return move_slices(slices, first, count, send, post);
}
template <class Slices>
Task<> receive_slices(Link& link, const Slices& slices, Rank first, Rank count, Signal if_empty) {
  auto receive = [&link](const Slice& message) { return link.recv(message); };
  auto wait = [&link, if_empty] { return link.wait(if_empty); };
  return move_slices(slices, first, count, receive, wait);
}
template <class Slices>
Task<> receive_reduce_slices(Link& link, const Slices& slices, Rank first, Rank count, Reducer reducer,
                             Signal if_empty) {
  auto receive = [&link, reducer](const Slice& message) { return link.recv_reduce(message, reducer); };
  auto wait = [&link, if_empty] { return link.wait(if_empty); };
  return move_slices(slices, first, count, receive, wait);
}

}  // namespace cohort
