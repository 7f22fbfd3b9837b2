// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/operators/all_gather.h>
#include <cohort/collectives/schedule/blocks.h>
#include <cohort/collectives/schedule/exec.h>

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

/// The blocks of an all_gather, which lie side by side unless the message was cut: then one message for each.
class RankBlocks {
 public:
  explicit RankBlocks(const AllGather& of) noexcept : op_(of) {}

  [[nodiscard]] Rank messages(Rank count) const noexcept { return op_.stride == op_.send.bytes ? 1 : count; }
  [[nodiscard]] Slice message(Rank first, Rank count, Rank index) const noexcept {
    const Slice one = op_.block(first + index);
    return {one.window, one.offset, messages(count) == 1 ? count * one.bytes : one.bytes};
  }

 private:
  AllGather op_;
};

/// Those of `count` ranks from `first` on, message by message. Links do not meet for an empty one: a signal
/// goes in its place, so that ranks hear from each other all the same. `slices` outlives the task.
template <class Slices>
Task<> send_slices(Link& link, const Slices& slices, Rank first, Rank count, Signal if_empty) {
  for (Rank i = 0; i < slices.messages(count); ++i) {
    const Slice message = slices.message(first, count, i);
    if (message.empty())
      co_await link.post(if_empty);
    else
      co_await link.send(message);
  }
}
template <class Slices>
Task<> receive_slices(Link& link, const Slices& slices, Rank first, Rank count, Signal if_empty) {
  for (Rank i = 0; i < slices.messages(count); ++i) {
    const Slice message = slices.message(first, count, i);
    if (message.empty())
      co_await link.wait(if_empty);
    else
      co_await link.recv(message);
  }
}
template <class Slices>
Task<> receive_reduce_slices(Link& link, const Slices& slices, Rank first, Rank count, Reducer reducer,
                             Signal if_empty) {
  for (Rank i = 0; i < slices.messages(count); ++i) {
    const Slice message = slices.message(first, count, i);
    if (message.empty())
      co_await link.wait(if_empty);
    else
      co_await link.recv_reduce(message, reducer);
  }
}

}  // namespace cohort
