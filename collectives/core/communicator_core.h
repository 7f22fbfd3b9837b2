// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/running_call.h>
#include <cohort/collectives/core/calibrator.h>
#include <cohort/collectives/core/choices.h>
#include <cohort/collectives/core/composite_calls.h>
#include <cohort/collectives/core/failure_report.h>
#include <cohort/collectives/core/message_runner.h>
#include <cohort/collectives/job/communicator_options.h>
#include <cohort/collectives/job/group_table.h>
#include <cohort/collectives/job/health.h>
#include <cohort/collectives/job/job.h>
#include <cohort/collectives/job/watchdog.h>
#include <cohort/collectives/p2p/matching.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/mutex.h>
#include <cohort/engine/tuning.h>

#include <memory>
#include <variant>

namespace cohort {

/// A communicator's inside, from the joining to the goodbye: runs one collective after the other, in the
/// order of the calls.
///
/// Choices picks a call's algorithm, CompositeCalls makes several messages of it where it needs more than
/// one, MessageRunner runs these. A call's turn, time and end are this class's.
///
/// That of a group has links, slots and buffers of its own, and shares with the one that was joined, its
/// root, what costs connections and memory: a Job, by which it owns the root, too. Threads: the engine's.
class CommunicatorCore final : public LinkOwner, private GroupTable::Listener, Immovable {
 public:
  /// Throws InvalidArgument for options that no rank could use; before joining.
  static void check(const CommunicatorOptions& options);

  /// For a communicator that is being joined. Takes the membership over, unless it throws: then the caller
  /// has its connections, to tell the others why. Errors: InvalidArgument, Unsupported, ResourceLimit,
  /// SystemError.
  static std::shared_ptr<CommunicatorCore> create(Engine& engine, std::unique_ptr<Membership>& membership,
                                                  const CommunicatorOptions& options);
  /// For a group that the root's table has made. Throws ProtocolError, ResourceLimit, Unsupported.
  static std::shared_ptr<CommunicatorCore> create_group(const std::shared_ptr<CommunicatorCore>& root,
                                                        GroupTable::Group& group);
  ~CommunicatorCore();

  /// Exchanges shared memory and configuration with all ranks, which the ranks of a group have done before;
  /// then collectives may run. What is measured of the hosts takes at most a fifth of that time, and has a
  /// default in its place where it would take longer.
  Task<> establish(Duration timeout);
  /// Says goodbye and ends what runs beside, unless groups need it. Idempotent. No collective may be running.
  /// Throws, when that is done, the cause of a failure of the last call that this rank hears of only here.
  Task<> close();

  /// What it shares with the communicator that was joined, which may be this one, and its groups.
  [[nodiscard]] Job& job() const noexcept { return *job_; }
  /// By which a group is found as long as somebody holds it.
  void set_handle(const std::shared_ptr<CommunicatorCore>& handle) noexcept { group_->handle = handle; }
  /// Which rank of the root one of this communicator is.
  [[nodiscard]] Rank world_rank(Rank rank) const noexcept { return place_.ranks[rank]; }
  [[nodiscard]] Duration timeout() const noexcept { return timeout_; }
  [[nodiscard]] bool is_closed() const noexcept { return stage_ != Stage::open; }
  /// Splits are numbered, in the order in which all ranks call them.
  [[nodiscard]] std::uint64_t next_split() noexcept { return ++splits_; }
  /// Why establish() was not through in time: names a rank that does not answer, if there is one. Who does
  /// is asked, since whoever this rank waits for may wait for another one.
  Task<Error> silence();
  /// Where establish() has failed: tells all ranks why, then waits until no peer touches what this rank
  /// measured in. Peers that do may wait for the cause.
  Task<> give_up(Error cause);
  /// Gives the communicator up for a reason of this rank's own.
  void abort(const std::string& reason) noexcept;

  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }
  [[nodiscard]] const std::string& transport() const noexcept {
    return messages_.resources().transports().name();
  }
  [[nodiscard]] const Health& health() const noexcept { return health_; }
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return messages_.resources().buffer_bytes(); }
  /// By which algorithms calls are run, and what is known for it.
  [[nodiscard]] Choices& choices() noexcept { return choices_; }
  [[nodiscard]] const Choices& choices() const noexcept { return choices_; }
  [[nodiscard]] Explanation explain(const Call& call, std::string_view forced) const {
    return choices_.explain(call, forced, messages_.exec().plan());
  }

  /// The path of small messages: completes the call without suspending if it can. Otherwise run() does;
  /// `has_begun` tells it that the call has its number already and waits for peers.
  [[nodiscard]] bool try_complete_now(const Call& call, bool& has_begun) noexcept;

  /// What a caller asks for: one message, or a call that is made of several.
  using Asked = std::variant<Call*, const TensorCall*, const FunctionCall*>;
  /// Runs the call, which outlives the task, in its turn.
  [[nodiscard]] Task<> run(Asked asked, bool has_begun);

  /// A call is awaited where its communicator lives.
  void assert_is_on_engine(Operator op) const noexcept {
    COHORT_ASSERT(engine_.is_current(),
                  "{} on '{}' was awaited on another engine than its communicator's; await it in a task of "
                  "that engine, or post() one there",
                  to_string(op), membership_.name);
  }
  /// A call that ends so is a bug, unless an exception is on its way.
  void report_never_awaited(Operator op) const noexcept;

  /// A message, without suspending, if it can be.
  [[nodiscard]] bool try_transfer_now(MessageRequest& request) noexcept {
    return matching_ && !is_closed() && matching_->try_complete_now(request);
  }
  /// The same with suspending; the request outlives the task.
  [[nodiscard]] Task<Envelope> transfer(const MessageRequest& request);
  /// As Matching::look_now().
  [[nodiscard]] std::optional<Envelope> look_now(const MessageRequest& probe);

  // LinkOwner:
  [[nodiscard]] const RunningOperation& running() const noexcept override { return messages_.running(); }
  void link_failed(Rank peer, const Error& error) noexcept override;
  void gives_up(Rank peer) noexcept override { health_.tell_giving_up(peer); }
  [[nodiscard]] bool ran_another(std::uint64_t sequence, const Signature& than) const noexcept override {
    return LinkOwner::ran_another(sequence, than) || health_.ran_another(sequence, than);
  }
  [[nodiscard]] bool has_process_ended(Rank peer) const noexcept override {
    return control_.has_process_ended(peer);
  }
  void mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept override {
    health_.report_mismatch(peer, sequence, theirs);
  }

 private:
  /// Made when it is first needed. Throws InvalidArgument where this is closed.
  [[nodiscard]] Matching& matching();
  /// How far a communicator is from its first call to its end, in this order.
  enum class Stage : std::uint8_t {
    open,
    closing,  ///< takes no more calls
    left,     ///< is told of no failure of its peers any more
  };

  /// Calls in a row that complete without suspending look now and then whether their turn of the loop is
  /// over: a call itself takes as long as to copy so many bytes, and each byte of a message is moved twice.
  /// Looking at the clock costs more than a small call would bear, so many of these share a look.
  static constexpr std::size_t kCallBytes = tuning::waiting::kCall;

  CommunicatorCore(Engine& engine, std::unique_ptr<Membership>& membership,
                   const CommunicatorOptions& options, std::shared_ptr<Job> job, GroupTable::Group* group);

  // GroupTable::Listener:
  void on_group_control(Rank from, const ControlMessage& message) noexcept override {
    health_.on_control(from, message);
  }
  void on_group_departure(Rank peer, bool said_goodbye, std::uint64_t after_sequence) noexcept override {
    health_.on_departure(peer, said_goodbye, after_sequence);
  }
  void on_group_failure(const Error& error) noexcept override {
    health_.unless_out_of_memory([&] { health_.fail(error.with_culprit(membership_.rank)); });
  }

  // One call, in its turn:
  [[nodiscard]] Task<> perform(Asked asked, bool has_begun);
  [[nodiscard]] Task<> begin_and_run(const Call& call);
  [[nodiscard]] Task<> run_and_measure_again(Task<> running, bool is_joint);

  // Failing and leaving (communicator_core_failures.cpp):
  /// What runs, as the communicator has failed.
  void end_with(const Error& cause) noexcept;
  void warn_of_long_call() noexcept;
  void time_is_over() noexcept;
  void service_failed(const std::exception_ptr& failure) noexcept;
  void fail_of_service(const std::exception_ptr& failure);
  Task<> let_data_leave();
  Task<> hear_of_last_call();
  /// Whether the last call of this rank is known to have failed since it was over.
  [[nodiscard]] bool is_untold() const noexcept;

  /// A group's: what ran beside its calls.
  Task<> end_services();

  // Establishing:
  Task<> establish_with_all(Duration timeout);
  Task<> measure_as_joined(TimePoint until);

  Engine& engine_;
  std::unique_ptr<Membership> owned_membership_;
  Membership& membership_;
  const bool is_group_;       ///< else the root
  GroupTable::Group* group_;  ///< of a group, until it has left
  const GroupPlace place_;    ///< in the root
  const Duration timeout_;
  const Wording wording_;
  Choices choices_;
  const std::optional<unsigned> copy_threads_;

  TaskScope services_{nullptr, TaskScope::OnFailure::keep_others};  ///< one that ends must not silence others
  const std::shared_ptr<Job> job_;
  MessageRunner messages_;  ///< before those that read what it owns
  RunningCall call_;
  ControlChannel control_;
  Health health_;
  bool takes_calls_ = true;  ///< neither failed nor closed
  CompositeCalls composite_;
  Calibrator calibrator_;
  Mutex turn_;             ///< held by the call that runs
  bool has_told_ = false;  ///< the cause of its failure, to a caller
  Stage stage_ = Stage::open;
  std::uint64_t splits_ = 0;
  CancelScope* operation_scope_ = nullptr;
  std::optional<Matching> matching_;  ///< from the first message on
  Watchdog watchdog_;
  FailureReport report_;
};

}  // namespace cohort
