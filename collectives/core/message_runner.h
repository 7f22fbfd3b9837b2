// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/running_call.h>
#include <cohort/collectives/call/signature.h>
#include <cohort/collectives/core/choices.h>
#include <cohort/collectives/core/run_ahead.h>
#include <cohort/collectives/job/health.h>
#include <cohort/collectives/job/resources.h>
#include <cohort/collectives/job/watchdog.h>
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/collectives/onehost/arrival.h>
#include <cohort/collectives/onehost/memory_exec.h>
#include <cohort/engine/tuning.h>

#include <optional>

namespace cohort {

/// Runs the messages of a communicator's calls, one after the other, by the algorithms chosen for them:
/// numbers and signs one, meets where ranks share memory, provides what the schedule needs, runs it.
///
/// Owns what messages run on: links, buffers, arrival slots. Threads: the engine's. Lifetime: the
/// communicator's; what it is given is not touched before the first message.
class MessageRunner : Immovable {
 public:
  struct Use {
    Engine& engine;
    Membership& membership;
    LinkOwner& owner;
    const Choices& choices;
    RunningCall& call;
    Health& health;
    Watchdog& watchdog;
  };

  /// `within`: of a group. Throws as Resources does.
  MessageRunner(const Use& use, const PeerTransports::Choice& transports,
                std::optional<PeerTransports::Within> within);
  /// Once the heap is there, and before the first message: lets ranks of this host meet.
  void meet_on_host(const SharedHeap& heap);
  /// Starts what runs beside messages. `job`: of all ranks that share the host's cores.
  void start(TaskScope& services, const Membership& job, std::optional<unsigned> copy_threads);

  [[nodiscard]] const RunningOperation& running() const noexcept { return running_; }
  [[nodiscard]] Resources& resources() noexcept { return resources_; }
  [[nodiscard]] const Resources& resources() const noexcept { return resources_; }
  [[nodiscard]] const MemoryExec& exec() const noexcept { return exec_; }
  /// Where there are other ranks on this host, over shared memory.
  [[nodiscard]] const std::optional<Arrival>& arrival() const noexcept { return arrival_; }
  [[nodiscard]] const RunAhead& run_ahead() const noexcept { return run_ahead_; }

  // The path of small messages, in this order; none suspends:
  [[nodiscard]] bool may_complete_here(const Call& message) const noexcept {
    if (message.reduce == ReduceOp::scaled_sum) return false;
    if (arrival_) return arrival_->may_complete_here(message);
    return message.algorithm->scope() == Scope::self &&
           message.message_bytes() <= tuning::slots::kMostInPlace;
  }
  /// The message has its number from here on.
  void prepare(const Call& message, const Signature& signature) noexcept {
    ++running_.sequence;
    running_.signature = signature;
    run_ahead_.begin(message.op);
    bind_input(message);
    if (message.blocks.empty()) [[likely]]
      running_.windows.bind(WindowId::recv, message.recv, message.recv_bytes);
    else
      running_.windows.bind_blocks(WindowId::recv, message.blocks, message.send_bytes);
    running_.is_running = true;
    if (arrival_) arrival_->begin(message);
    resources_.operation_started();
  }
  [[nodiscard]] bool announce_here(const Call& message) noexcept {
    return !arrival_ || arrival_->announce_here(message);
  }
  [[nodiscard]] bool complete_here(const Call& message) noexcept {
    if (arrival_) return arrival_->complete_here(message);
    exec_.begin(UserWindows::mapped, 0);
    message.algorithm->combine(exec_, message.arguments(membership_.size));
    return true;
  }
  void end() noexcept { running_.is_running = false; }

  /// Any message, also of a call that has several: it has its number from here on. Throws the cause if the
  /// communicator has failed by then.
  void begin(const Call& message, const Signature& signature);
  /// It sends this instead of what it was begun with.
  void bind_input(const Call& message) noexcept {
    running_.windows.bind(WindowId::send, message.send, message.send_bytes);
  }
  /// Runs a message that has begun, and outlives the task.
  [[nodiscard]] Task<> run(const Call& message);
  /// The same for a call that has several messages: in place where it can be.
  Task<> run_or_complete(const Call& message);
  /// After one that has not failed.
  void finish(const Call& message) noexcept {
    if (message.message_bytes() > tuning::slots::kMostInPlace) exec_.end();
  }
  /// One outside the numbers of the user's, without a watchdog: what runs it has its own deadline.
  Task<> run_unnumbered(const Call& message);
  /// After such ones, on all ranks of a communicator that is on one host: leaves no trace of them, so that
  /// numbers begin anew.
  Task<> forget_unnumbered();

  /// Before this rank leaves: as RunAhead::hear_of_last().
  [[nodiscard]] Task<> hear_of_last();
  /// No peer touches this rank's buffers after this. Those that are gone touch nothing.
  Task<> withdraw();

 private:
  Task<> attend_and_run(const Call& message);
  [[nodiscard]] Task<> run_schedule(const Call& message);
  Task<> complete_alone(const Call& message);
  Task<> provide_and_run(const Call& message, ResourceTag tag);
  Task<> run_on_peers_memory(const Call& message, std::size_t piece);

  Engine& engine_;
  const Membership& membership_;
  LinkOwner& owner_;
  const Choices& choices_;
  RunningCall& call_;
  Health& health_;
  Watchdog& watchdog_;

  RunningOperation running_;
  RunAhead run_ahead_;
  Resources resources_;
  MemoryExec exec_;
  std::optional<Arrival> arrival_;
};

}  // namespace cohort
