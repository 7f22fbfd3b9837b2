// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/own_counts.h>
#include <cohort/collectives/call/running_call.h>
#include <cohort/collectives/core/choices.h>
#include <cohort/collectives/core/function_reducer.h>
#include <cohort/collectives/core/message_runner.h>
#include <cohort/collectives/core/packed_tensors.h>
#include <cohort/collectives/core/scaled_input.h>

#include <memory>

namespace cohort {

/// Runs calls that are made of several messages, or that have work of this rank's own to do before or after
/// theirs: of counts that ranks tell each other first, of scaled sums, of several tensors, by a function.
///
/// One call at a time; what one needs is kept for the next. Threads: the engine's. Lifetime: the
/// communicator's, whose parts it uses.
class CompositeCalls : Immovable {
 public:
  CompositeCalls(Engine& engine, const Membership& membership, const Choices& choices,
                 const std::shared_ptr<SharedHeap>& heap, RunningCall& call, MessageRunner& messages);

  /// Whether a call on one buffer is one of these.
  [[nodiscard]] static bool is_composite(const Call& call) noexcept {
    return call.reduce == ReduceOp::scaled_sum || call.has_own_counts();
  }
  // The call has its number from here on, and outlives the task. Throw what is wrong with it on this rank,
  // and the cause if the communicator fails.
  [[nodiscard]] Task<> run(const Call& call);
  [[nodiscard]] Task<> run(const TensorCall& call);
  [[nodiscard]] Task<> run(const FunctionCall& call);

 private:
  Task<> scale_and_run(const Call& call);
  Task<> tell_counts_and_run(const Call& call);
  Task<> run_tensors(const TensorCall& call);
  Task<> run_message(const TensorCall& call, const TensorPlan::Message& message);
  Task<> run_function(const FunctionCall& call);
  Task<> move_for_function(Call& message);
  /// A message that is signed for itself.
  void begin(const Call& message);

  Engine& engine_;
  const Membership& membership_;
  const Choices& choices_;
  RunningCall& call_;
  MessageRunner& messages_;

  OwnCounts counts_;    ///< where ranks have to tell them
  ScaledInput scaled_;  ///< where it is a scaled_sum
  TensorPlan tensors_;  ///< where it has several
  PackedTensors packed_;
  FunctionReducer function_reducer_;
};

}  // namespace cohort
