// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/tensor_call.h>

#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// Which tensors of a call travel together: the rule, the same on all ranks.
///
/// Tensors whose largest buffer on any rank has up to kMostPackedBytes are copied side by side into messages
/// of up to kMessageBytes, in their order, larger ones left out; those then run by themselves, where they
/// lie: to copy them takes longer than a call of their own.
class TensorPlan {
 public:
  static constexpr std::size_t kMostPackedBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMessageBytes = std::size_t{512} << 10;

  /// What runs at once. There is always one, if it be of no tensors, so that ranks meet.
  struct Message {
    std::size_t first = 0;
    std::size_t end = 0;     ///< those of [first, end) that is_packed() says are in it, or one by itself
    std::size_t count = 0;   ///< elements as in Call: of all of them
    bool is_packed = false;  ///< else the one at `first`, where it lies
  };

  /// Throws InvalidArgument, naming the tensor, for what make_call() refuses, for lists that do not belong
  /// together, for tensors that overlap each other where one of them is written to, and for operators that
  /// are not for several tensors.
  void begin(const TensorCall& call, Rank rank, Rank ranks);
  /// The next of its messages; nothing after the last one.
  [[nodiscard]] std::optional<Message> next() noexcept;

  /// By tensor, in elements as in Call.
  [[nodiscard]] std::span<const std::size_t> counts() const noexcept { return counts_; }
  [[nodiscard]] std::size_t size() const noexcept { return counts_.size(); }
  /// Whether that tensor is in a message with others.
  [[nodiscard]] bool is_packed(std::size_t tensor) const noexcept {
    return counts_[tensor] != 0 && counts_[tensor] <= most_packed_;
  }
  /// Where one tensor's input and output lie; empty where it has none.
  struct Places {
    std::span<const std::byte> in;
    std::span<std::byte> out;
  };
  [[nodiscard]] static Places places_of(const TensorCall& call, std::size_t tensor, Rank rank, Rank ranks);
  /// The call for one tensor, where it lies.
  [[nodiscard]] static Call call_of(const TensorCall& call, std::size_t tensor, Rank rank, Rank ranks);

 private:
  /// Memory that one tensor's call reads, or writes to.
  struct Stretch {
    const std::byte* begin;
    const std::byte* end;
    std::size_t tensor;
    bool is_written;
  };

  void take(const Call& call, std::size_t tensor);
  void refuse_overlaps(Operator op);
  [[nodiscard]] std::optional<Message> next_packed() noexcept;

  std::vector<std::size_t> counts_;
  std::vector<Stretch> stretches_;  ///< kept for the next call, to allocate nothing
  std::size_t most_packed_ = 0;     ///< elements of a tensor, and of a message
  std::size_t most_together_ = 0;
  std::size_t next_packed_ = 0;
  std::size_t next_alone_ = 0;
  bool has_message_ = false;
};

}  // namespace cohort
