// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/health.h>
#include <cohort/collectives/call/meeting.h>
#include <cohort/collectives/call/resources.h>
#include <cohort/collectives/call/watchdog.h>
#include <cohort/collectives/communicator_options.h>
#include <cohort/collectives/memory/memory_exec.h>
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/collectives/selection/explanation.h>
#include <cohort/collectives/selection/forced_algorithms.h>
#include <cohort/collectives/selection/selection.h>
#include <cohort/engine/mutex.h>

namespace cohort {

/// A communicator's inside: runs one collective after the other, in the order of the calls.
///
/// From call to bytes: select the algorithm, number and sign the call, meet where ranks share memory, provide
/// what the schedule needs, run it. Threads: the engine's.
class CommunicatorCore final : public LinkHost, Immovable {
 public:
  /// Throws InvalidArgument for options that no rank could use; before joining.
  static void check(const CommunicatorOptions& options);

  /// Takes the membership over, unless it throws: then the caller has its connections, to tell the others
  /// why. Errors: InvalidArgument, Unsupported, ResourceLimit, SystemError.
  CommunicatorCore(Engine& engine, std::unique_ptr<Membership>& membership,
                   const CommunicatorOptions& options);
  ~CommunicatorCore();

  /// Exchanges shared memory and configuration with all ranks; then collectives may run.
  Task<> establish();
  /// Says goodbye and ends what runs beside. Idempotent. No collective may be running.
  Task<> close();
  /// Why establish() was not through in time: names the first rank that did not answer, if there is one.
  [[nodiscard]] Error silence() const;
  /// Gives the communicator up, and tells all ranks why.
  void give_up(const Error& cause) noexcept { health_.fail(cause); }
  /// Gives the communicator up for a reason of this rank's own.
  void abort(const std::string& reason) noexcept;

  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }
  [[nodiscard]] const std::string& transport() const noexcept { return resources_.transports().name(); }
  [[nodiscard]] const Health& health() const noexcept { return health_; }
  [[nodiscard]] SharedHeap& heap() noexcept { return heap_; }
  [[nodiscard]] const AlgorithmTable& algorithms() const noexcept { return algorithms_; }
  /// The algorithm for a call; `forced` by it, if not empty.
  [[nodiscard]] const AnyAlgorithm& select(const Call& call, std::string_view forced) const {
    return *choose_algorithm(call, reach_, algorithms_, {forced, forced_.of(call.op)}).algorithm;
  }
  [[nodiscard]] Explanation explain(const Call& call, std::string_view forced) const {
    return explain_choice(call, reach_, algorithms_, {forced, forced_.of(call.op)});
  }
  [[nodiscard]] const Reach& reach() const noexcept { return reach_; }

  /// The path of small messages: completes the call without suspending if it can. Otherwise run() does;
  /// `has_begun` tells it that the call has its number already and waits for peers.
  [[nodiscard]] bool try_complete_now(const Call& call, bool& has_begun) noexcept;
  /// Runs the call, which outlives the task, in its turn.
  [[nodiscard]] Task<> run(const Call& call, bool has_begun);

  // LinkHost:
  [[nodiscard]] const RunningOperation& running() const noexcept override { return running_; }
  void link_failed(Rank peer, const Error& error) noexcept override {
    health_.report_link_fault(peer, error);
  }
  void mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept override {
    health_.report_mismatch(peer, sequence, theirs);
  }

 private:
  // One collective:
  void begin(const Call& call) noexcept;
  void prepare(const Call& call) noexcept;
  [[nodiscard]] bool may_complete_here(const Call& call) const noexcept;
  [[nodiscard]] bool complete_here(const Call& call) noexcept;
  Task<> run_unnumbered(const Call& call);
  /// What runs it: over links the schedule's own task, else one that meets or provides first.
  [[nodiscard]] Task<> orchestrate(const Call& call);
  Task<> attend_and_run(const Call& call);
  [[nodiscard]] Task<> run_schedule(const Call& call);
  Task<> complete_alone(const Call& call);
  Task<> provide_and_run(const Call& call, ResourceTag tag);
  Task<> run_on_peers_memory(const Call& call, std::size_t piece);
  void leave_because(const std::string& when_and_why) noexcept;
  [[nodiscard]] Error settle_failure(const std::exception_ptr& failure) noexcept;
  Task<> withdraw();
  void service_failed(const std::exception_ptr& failure) noexcept;
  [[nodiscard]] Error deadline_exceeded() const;

  // Establishing:
  Task<> calibrate();

  Engine& engine_;
  std::unique_ptr<Membership> owned_membership_;
  Membership& membership_;
  const AlgorithmTable algorithms_;
  const Duration timeout_;
  const ForcedAlgorithms forced_;
  const std::optional<unsigned> copy_threads_;
  const std::size_t pull_from_bytes_;  ///< what the options say

  RunningOperation running_;
  TaskScope services_{nullptr, TaskScope::OnFailure::keep_others};  ///< one that ends must not silence others
  ControlPlane control_;
  Health health_;
  Resources resources_;
  SharedHeap heap_;
  MemoryExec exec_;
  Reach reach_;
  std::optional<Meeting> meeting_;  ///< where there are other ranks on this host, over shared memory

  Mutex turn_;  ///< held by the call that runs
  bool is_closed_ = false;
  CancelScope* operation_scope_ = nullptr;
  Watchdog watchdog_;
};

}  // namespace cohort
