// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/channel.h>
#include <cohort/collectives/machines/check/expression.h>
#include <cohort/collectives/machines/check/fault.h>
#include <cohort/collectives/machines/check/finding.h>
#include <cohort/collectives/machines/check/memory.h>
#include <cohort/collectives/machines/check/plan.h>
#include <cohort/collectives/machines/check/task_record.h>
#include <cohort/collectives/machines/stage/stage.h>

#include <memory>
#include <unordered_map>

namespace cohort::check {

/// What one rank moved in the first operation, in bytes.
struct Traffic {
  std::uint64_t sent = 0;      ///< over links
  std::uint64_t received = 0;  ///< over links, or read from mapped peers
  std::uint64_t copied = 0;    ///< within its memory
  std::uint64_t stored_at_peers = 0;
  std::uint64_t combined = 0;  ///< operands beyond the first
  std::uint64_t operands = 0;
  std::uint64_t messages = 0;         ///< sent over links
  std::uint64_t messages_taken = 0;   ///< on their way to it over links
  std::uint64_t sent_inside = 0;      ///< of those sent, to ranks of the same host
  std::uint64_t messages_inside = 0;  ///< the same
};

/// Where the scratch of a level begins that no schedule has said in this operation: outside.
inline constexpr std::size_t kUnsaidScratch = std::size_t{1} << 60;

/// The machine that proves: symbolic memory, links that complete as little as any transport may, and the
/// order that holds in every run.
///
/// Its links are the strictest that a schedule may meet: a send completes when it has been received; what one
/// rank sends another on a link and lane, bytes and signals alike, arrives in order and waits behind bytes
/// that nobody receives yet.
///
/// Streams are deterministic and each end of a link is used by one stream at a time, which is checked; so
/// what can complete does not depend on the order in which streams run, and a run that ends here ends on
/// every machine.
class Machine final : public machine::Stage {
 public:
  Machine(const Plan& plan, const Fault* fault);
  ~Machine() override;

  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }

  /// The running stream, a main one, begins and ends an operation; with a mapped group, the caller then
  /// meets.
  void begin();
  void end();
  /// Carries a task of the rank's running stream out, or begins to. True: it is complete, which one without
  /// an operation always is.
  bool carry_out(Rank rank, TaskRequest request, Operation* operation);
  /// Why the rank may not use that link; empty if it may.
  [[nodiscard]] std::string objection_to_link(Rank rank, Rank peer, Lane lane) const;
  /// What the schedule of a rank threw.
  void failed(Rank rank, const std::string& what);
  /// The schedule asked for something that it may not have.
  void refuse(Rank rank, const std::string& what);
  /// After the run: whoever has not come to its end, although nothing else was found, is found now.
  void check_ends(std::uint32_t operations);

  [[nodiscard]] const std::vector<Finding>& findings() const noexcept { return findings_; }
  /// If nothing was found, nothing would be in any operation that follows, with the same arguments. Each
  /// rank's own accesses are ordered by its streams, which are joined, and peers' accesses to its memory are
  /// over when it leaves (check_left_behind), or before all meet again.
  ///
  /// So the next operation meets them only by what peers do before it has begun there: nothing, if all that
  /// they touch in this one comes certainly after its beginning.
  ///
  /// Then the next one starts as this one did, with nothing on its way that is not in front of all that it
  /// sends: links keep order, and tell its signals from older ones.
  [[nodiscard]] bool holds_in_a_row() const noexcept {
    return holds_in_a_row_ && plan_.tags_signals && !plan_.is_eager && !plan_.goes_ahead;
  }
  [[nodiscard]] const Traffic& traffic(Rank rank) const noexcept { return ranks_[rank].traffic; }
  [[nodiscard]] std::size_t tasks() const noexcept { return tasks_.size(); }
  /// Messages that followed one another, on the longest path; and the bytes on the path with most of them.
  [[nodiscard]] std::uint32_t rounds() const noexcept { return rounds_; }
  [[nodiscard]] std::uint64_t path_bytes() const noexcept { return path_bytes_; }
  /// Some message had no bytes, so that nobody was asked whom it has heard of.
  [[nodiscard]] bool had_empty_messages() const noexcept { return had_empty_messages_; }
  /// Every combined result is ranks 0, 1, 2, ... in this order; a run without any is, too.
  [[nodiscard]] bool is_in_rank_order() const noexcept { return is_in_rank_order_; }
  /// Every combined result is the work of one step.
  [[nodiscard]] bool is_at_once() const noexcept { return is_at_once_; }
  /// Of all results, with the order in which each was combined; in whatever order ranks ended.
  [[nodiscard]] std::uint64_t results() const noexcept { return fingerprint_; }
  [[nodiscard]] const std::string& example_of_order() const noexcept { return example_of_order_; }

 private:
  friend class Deadlock;
  using Step = Expressions::Step;

  struct RemoteAccess {
    Access access;
    WindowId window;
  };
  struct RankState {
    CaseVector<Memory> memories;
    std::uint32_t operation = 0;
    bool is_inside = false;
    bool has_empty_messages = false;
    std::uint32_t phases = 0;
    Moment last_phase;
    CaseVector<Moment> begun;         ///< each operation
    CaseVector<RemoteAccess> remote;  ///< by peers, in this operation
    CaseVector<Channel*> incoming;
    Traffic traffic;
  };
  struct StreamState {
    std::uint32_t operation = 0;
    std::uint32_t number = 0;
    std::uint32_t rounds = 0;
    std::uint64_t path_bytes = 0;
    std::uint32_t forks = 0;  ///< joined
    bool is_waiting = false;
    TaskId task = 0;                ///< the last one
    NotifyId notify = 0;            ///< for which it waits, if for one
    std::vector<TaskRequest> rest;  ///< that a fault lets follow, the next one last
  };
  struct Gate {
    CaseVector<Waiting> arrived;
    // Of an arrival at which not all wait for all:
    CaseVector<Stamp> stamps;  ///< of those who have arrived
    CaseVector<std::uint32_t> rounds;
    CaseVector<std::uint64_t> path_bytes;
    CaseVector<Waiting> waiting;  ///< of these, and of those who come to the next one, whoever lacks somebody
  };
  struct NotifyState {
    std::uint32_t limit = 1;
    Line<Message> posts;  ///< that nobody has taken
    CaseVector<Moment> takes;
    std::uint32_t posted = 0;
    Moment last_post;
    std::optional<Waiting> waiting;
  };

  /// A task wrote over contributions that its own value does not have.
  struct Loss {
    TaskId task;
    ExpressionId lost;
    std::int64_t begin;  ///< in the contributions
    std::int64_t end;
  };
  /// Where a slice lies, whatever window names it.
  struct Interval {
    Rank rank = 0;
    std::size_t allocation = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
    auto operator<=>(const Interval&) const = default;
    [[nodiscard]] bool meets(const Interval& other) const noexcept {
      return rank == other.rank && allocation == other.allocation && begin < other.end && other.begin < end;
    }
  };
  struct Result {
    bool is_known = false;
    Rank rank = 0;
    Content content;
  };

  // Stage:
  void forked(StreamId parent, StreamId child) noexcept override;
  void joined(StreamId parent, std::span<const StreamId> children) noexcept override;
  void stuck() override;
  bool goes_on(Operation& operation) override;
  NotifyId makes_notify(std::uint32_t limit) override;
  void notify_is_gone(NotifyId id) noexcept override;
  void posts(NotifyId id) noexcept override;
  bool takes_post(NotifyId id) override;
  void awaits_post(NotifyId notify, Operation& wait) noexcept override;

  // Notifies (notifies.cpp):
  void post_notify(NotifyId id, TaskId task);
  bool wait_for_notify(NotifyId id, TaskId task, Operation* operation);
  void take_post(NotifyState& notify, const Waiting& waiting);

  // Tasks (machine.cpp):
  TaskId admit(const TaskRequest& request);
  [[nodiscard]] Fate alter(Rank rank, TaskRequest& request);
  bool begin_task(const TaskRequest& request, Operation* operation);
  bool begin_rest(Operation* operation);
  [[nodiscard]] bool is_of_stream(Rank rank, const TaskRequest& request, const Operation* operation);
  bool dispatch(const TaskRequest& request, TaskId task, Operation* operation);
  void copy(const TaskRequest& request, const Access& by);
  void reduce(const TaskRequest& request, const Access& by);
  void finish_average(const TaskRequest& request, const Access& by);
  bool arrive(const TaskRequest& request, TaskId task, Operation* operation);
  bool arrive_ahead(Gate& gate, const Waiting& arriving);
  bool catch_up(TaskId task, Operation* operation);
  bool go_on_at(const Gate& gate, const Waiting& waiting);
  Content combine(const Content& left, const Content& right, TaskId task, Step step = Step::begins);
  void average(Content& of, Step step);
  void add_states(StreamId last);
  StreamState& state(StreamId stream) {
    if (stream >= streams_.size()) add_states(stream);
    return streams_[stream];
  }

  // Contracts (contracts.cpp):
  void check_contracts(const TaskRequest& request, TaskId task);
  void check_reached(const TaskRequest& request, TaskId task);
  void check_combine(const TaskRequest& request, TaskId task);
  void check_elements(const TaskRequest& request, TaskId task);
  void check_overlap(const TaskRequest& request, TaskId task);
  void check_piece(std::size_t bytes, const Value& value, TaskId task);
  void check_repeated(Rank owner, const Slice& slice, const Content& content, TaskId task);
  void check_unread(Rank owner, const Slice& slice, bool at_end);
  void check_kept(Rank owner, const Slice& slice, TaskId task);
  [[nodiscard]] std::optional<Interval> interval_of(const PlacedSlice& of) const;

  // Memory (accesses.cpp):
  [[nodiscard]] bool may_touch(Rank owner, const Slice& slice, bool writes, TaskId task, bool over_link);
  [[nodiscard]] bool keeps_to_block(Rank owner, const Slice& slice, bool writes, TaskId task);
  Content read(Rank owner, const Slice& slice, const Access& by);
  void write(Rank owner, const Slice& slice, const Content& content, const Access& by);
  [[nodiscard]] Memory& memory_of(Rank owner, WindowId window);
  [[nodiscard]] const WindowPlace& place_of(Rank owner, WindowId window) const;
  void note_losses(const Memory& memory, std::size_t begin, const Content& content, TaskId task);
  [[nodiscard]] bool is_left_to_peers(WindowId window) const noexcept;
  void note_remote(Rank owner, const Slice& slice, const Access& by);
  void report(Rank owner, WindowId window, const Access& by, bool writes, const Conflicts& conflicts);
  [[nodiscard]] std::string advice(const Conflict& conflict, const TaskRecord& earlier,
                                   const TaskRecord& later, bool later_writes) const;

  // Links (links.cpp):
  Channel& channel(Rank from, Rank to, Lane lane);
  bool on_link(const TaskRequest& request, TaskId task, Operation* operation);
  void use_end(Access& last, TaskId task, const Channel& link, std::string_view end);
  void post(Channel& link, const TaskRequest& request, TaskId task);
  void wait(Channel& link, const TaskRequest& request, const Waiting& waiting);
  void start_send(Channel& link, const TaskRequest& request, const Waiting& waiting);
  void start_put_or_get(Channel& link, const TaskRequest& request, const Waiting& waiting);
  void enqueue(Channel& link, Message message);
  void pump(Channel& link);
  void pump(Channel& link, Line<Message>& line);
  bool deliver(Channel& link, Message& message);
  void deliver_signal(Channel& link, Message message);
  void deliver_put(Channel& link, Message& message);
  void serve_get(Channel& link, Message& message);
  void finish_get(Channel& link, Message& message);
  void check_replies(const Channel& link, const Message& message, const Waiting& receiver);
  bool deliver_bytes(Channel& link, Message& message);
  void take_signal(SignalEnd& end, const Waiting& waiting);
  void lost(const Message& message);
  void check_limit(const Channel& link, SignalEnd& end, const TaskRequest& request, TaskId task);
  void complete_waiting(const Waiting& waiting);
  /// Of what goes over a link.
  void count_message(Rank from, Rank to);
  void count_sent(Rank from, Rank to, std::size_t bytes);
  [[nodiscard]] Message message_of(MessageKind kind, const TaskRequest& request, const Waiting& waiting);
  void hear(StreamId stream, const Message& message, std::uint32_t hops);

  // Operations (operations.cpp):
  void fill_windows(Rank rank, TaskId task);
  void check_left_behind(Rank rank, TaskId task);
  void check_waste(Rank leaving);
  [[nodiscard]] bool needs(Rank rank, Rank other) const;
  void check_result(Rank rank, TaskId end);
  void check_stretch(Rank rank, const Stretch& stretch, TaskId end);
  void check_same_everywhere(Rank rank);
  void note_order(TaskId end, const Stretch& stretch, std::size_t at, ExpressionId what);
  void wrong_value(TaskId end, const Stretch& stretch, std::size_t at, const Piece& piece);

  // Words (words.cpp):
  /// Who lost the first contribution that a wrong result lacks, if anybody did.
  [[nodiscard]] const Loss* loss_of(const Value& value, std::int64_t at, RankRange of) const;
  void add(FindingKind kind, TaskId id, const std::string& text);
  void waits_elsewhere(StreamId stream);
  [[nodiscard]] std::string who(TaskId id) const;
  [[nodiscard]] std::string bytes_of(Rank owner, WindowId window, std::size_t begin, std::size_t end) const;
  [[nodiscard]] Access now(TaskId task) { return {order_.now(tasks_[task].stream), task}; }

  /// Where to count what the rank moves: only the first operation counts.
  [[nodiscard]] Traffic& counting(Rank rank) {
    return ranks_[rank].operation == 1 ? ranks_[rank].traffic : uncounted_;
  }

  const Plan& plan_;
  const Fault* const fault_;
  Order order_;
  Expressions expressions_;
  std::vector<RankState> ranks_;
  CaseVector<StreamState> streams_;
  CaseVector<TaskRecord> tasks_;
  CaseVector<std::unique_ptr<Channel>> channels_;
  std::unordered_map<std::uint64_t, Gate> gates_;  ///< by operation and number of the arrival in it
  std::unordered_map<NotifyId, NotifyState> notifies_;
  NotifyId last_notify_ = 0;
  std::vector<Finding> findings_;
  std::array<std::size_t, kFindingKinds> found_{};

  /// The operation that carry_out() is starting; null once it is over.
  Operation* starting_ = nullptr;

  std::vector<Result> results_;  ///< of operations, of whoever ended them first
  std::vector<Loss> losses_;
  Traffic uncounted_;
  std::uint32_t rounds_ = 0;
  std::uint64_t path_bytes_ = 0;
  bool holds_in_a_row_ = true;
  bool had_empty_messages_ = false;
  Rank leavers_ = 0;  ///< of the operation that not all have left
  bool is_in_rank_order_ = true;
  bool is_at_once_ = true;
  bool breaks_order_ = false;  ///< that the algorithm says it has
  std::string example_of_order_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace cohort::check
