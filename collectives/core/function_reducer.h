// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/function_reduction.h>
#include <cohort/collectives/memory/kept_buffer.h>
#include <cohort/engine/engine.h>

#include <functional>

namespace cohort {

/// Combines by a function of the program's: ranks move their elements as bytes, in pieces, and each combines
/// what it gets in rank order.
///
/// all_reduce: every rank gets a share of all ranks' elements (all_to_all), combines it, and all get the sums
/// (all_gather): 2(p-1)/p n bytes sent per rank, as by a mesh. Where shares are small, or of two ranks, all
/// get everything and combine it (all_gather): (p-1) n. reduce: a gather. reduce_scatter: an all_to_all.
/// scans: as the latter all_reduce. Threads: the engine's.
class FunctionReducer {
 public:
  /// Runs a call that moves bytes, in its place in the communicator's order.
  using Move = std::function<Task<>(Call& call)>;

  /// Two pieces at once are kept, each no larger unless elements are.
  static constexpr std::size_t kPieceBytes = std::size_t{512} << 10;
  /// A share below that is not worth a second message.
  static constexpr std::size_t kLeastShareBytes = std::size_t{4} << 10;

  FunctionReducer(Engine& engine, const std::shared_ptr<SharedHeap>& heap, Rank rank, Rank ranks, Move move)
      : engine_(engine), rank_(rank), ranks_(ranks), move_(std::move(move)), got_(heap), packed_(heap) {}

  /// Throws InvalidArgument for a reduction without a function, and for an algorithm that is asked for.
  static void check(const FunctionCall& call, std::string_view algorithm);
  /// The call in bytes. Throws InvalidArgument for what is wrong on this rank alone.
  [[nodiscard]] static Call whole_of(const FunctionCall& call, Rank rank, Rank ranks);
  /// Both arguments outlive the task. Throws Internal for whatever the function throws, naming this rank.
  Task<> run(const Call& whole, const ElementFunction& function);

 private:
  Task<> all_reduce();
  Task<> reduce();
  Task<> reduce_scatter();
  Task<> scan();

  /// Elements of this size, from each rank, that a piece has room for.
  [[nodiscard]] std::size_t most_per_rank() const noexcept;
  /// Moves `bytes` of each rank, or of each block.
  Task<> gather_all(const std::byte* in, std::byte* out, std::size_t bytes);
  Task<> gather_at_root(const std::byte* in, std::byte* out, std::size_t bytes);
  Task<> exchange_blocks(const std::byte* in, std::byte* out, std::size_t bytes);
  void combine_some(std::byte* left, const std::byte* right, std::size_t count) const;
  /// Combines what the first ranks have left in got_, block after block, there.
  Task<> combine(std::size_t block_bytes, Rank ranks);
  /// Gives the communicator its turn of the loop back now and then.
  Task<> copy(std::byte* to, const std::byte* from, std::size_t bytes);

  Engine& engine_;
  const Rank rank_;
  const Rank ranks_;
  const Move move_;
  KeptBuffer got_;
  KeptBuffer packed_;
  std::byte* blocks_ = nullptr;  ///< got_
  const Call* whole_ = nullptr;
  const ElementFunction* function_ = nullptr;
};

}  // namespace cohort
