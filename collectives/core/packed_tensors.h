// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/tensor_call.h>
#include <cohort/collectives/call/tensor_plan.h>
#include <cohort/collectives/memory/kept_buffer.h>
#include <cohort/engine/engine.h>

namespace cohort {

/// Tensors side by side in one message, and back where they belong. Keeps its memory, at most
/// TensorPlan::kMessageBytes, which peers of this host map where the heap has room for it.
///
/// Blocks of the message are those of a call on one tensor: block r holds block r of each tensor, in their
/// order. The call is done in place. Threads: the engine's.
class PackedTensors {
 public:
  PackedTensors(Engine& engine, const std::shared_ptr<SharedHeap>& heap, Rank rank, Rank ranks) noexcept
      : engine_(engine), rank_(rank), ranks_(ranks), room_(heap) {}

  /// The call of a message, and which tensors are in it; the plan and both outlive what follows. Throws
  /// std::bad_alloc.
  [[nodiscard]] Call place(const TensorCall& call, const TensorPlan& plan,
                           const TensorPlan::Message& message);
  /// The tensors' elements to the message, times the factor of a scaled_sum. Others on the engine have their
  /// turns meanwhile.
  Task<> pack(const Call& whole);
  /// The results to the tensors, where this rank gets any.
  Task<> unpack(const Call& whole);

 private:
  /// Copies the blocks one after the other, `blocks` of each tensor, between them and the message.
  template <class Move>
  Task<> move_blocks(const Call& whole, std::size_t blocks, Move move);

  Engine& engine_;
  const Rank rank_;
  const Rank ranks_;
  const TensorCall* call_ = nullptr;
  const TensorPlan* plan_ = nullptr;
  TensorPlan::Message message_;
  KeptBuffer room_;
};

}  // namespace cohort
