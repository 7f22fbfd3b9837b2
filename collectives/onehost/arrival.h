// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/collectives/onehost/memory_exec.h>
#include <cohort/collectives/onehost/slot_filling.h>
#include <cohort/collectives/selection/call_plan.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/net/host/host_group.h>

#include <array>

namespace cohort {

/// How the ranks of one host begin a collective, whether they are all of the communicator's or not: each
/// announces what it runs, with its data if that is small, else with the places of its buffers, and waits for
/// the others. Then a local schedule runs on what was announced.
///
/// Where data travels, a rank waits only for those that it needs, and hears of the others before it announces
/// the next one.
///
/// Everything here can happen in place, without suspending, while peers come within a short spin; attend()
/// goes on from wherever that ended. Names no operator and no algorithm: of each it knows what is said in
/// operators/description.h and by AnyAlgorithm. Threads: the engine's. Lifetime: the communicator's.
class Arrival : Immovable {
 public:
  Arrival(Engine& engine, const Membership& membership, host::HostGroup& group, LinkOwner& host,
          RunningOperation& running, MemoryExec& exec, const SharedHeap& heap, const Reach& reach);

  /// Says that all ranks live in this process, and any memory of theirs can be reached.
  void set_one_process() noexcept { is_one_process_ = true; }
  [[nodiscard]] bool is_one_process() const noexcept { return is_one_process_; }

  /// Before each collective.
  void begin(const Call& call) noexcept {
    progress_ = Progress::begun;
    plan_ = plan_for(call, exec_.plan(), reach_);
  }

  /// Whether the call's local schedule may run where the call is made.
  [[nodiscard]] bool may_complete_here(const Call& call) const noexcept;
  /// Tells the others that this rank has come, with its data if it travels; false, and nothing is told yet:
  /// they have not all come to the last call. What is done before the next step costs nothing: it takes a
  /// cache line's way until they see it.
  bool announce_here(const Call& call) noexcept;
  /// Announces, if that is not done, and if all whom this rank needs come while it spins, runs the local
  /// schedule: true, and the call is complete.
  [[nodiscard]] bool complete_here(const Call& call) noexcept;
  /// Waits for all that this rank needs, and runs the local schedule where there is one. False: the schedule
  /// is still to be run, with windows() bound. A disagreement, or memory that a peer has withdrawn, ends by
  /// the cancellation that its cause brings.
  Task<bool> attend(const Call& call);
  /// Between calls: whether all have come to the last one, where this rank went ahead of others. Reports a
  /// disagreement.
  [[nodiscard]] bool has_caught_up() noexcept;
  /// Whether all ranks are of this host.
  [[nodiscard]] bool sees_all() const noexcept { return reach_.is_host_wide; }
  /// All have passed a phase since the last call.
  void forget_last_call() noexcept { is_ahead_ = false; }
  /// How the user windows of all ranks are reached, the same on every rank. After attend().
  [[nodiscard]] UserWindows windows() const noexcept { return windows_; }

  /// Whether that rank is one of this host's, whose memory is mapped.
  [[nodiscard]] bool includes(Rank peer) const noexcept { return group_.is_mapped(peer); }
  [[nodiscard]] bool has_arrived(Rank peer) const noexcept {
    return group_.has_arrived(peer, running_.sequence);
  }
  /// Whether that rank has come to the last phase that this one has come to.
  [[nodiscard]] bool has_come_to_phase(Rank peer) const noexcept { return group_.has_come_to_phase(peer); }

 private:
  /// How far this rank is in the call that runs.
  enum class Progress : std::uint8_t {
    begun,
    announced,
    filling,   ///< all have come, and some of their data is still to come or to be combined
    bound,     ///< everybody has come, and a local schedule is to be run in turns with others
    combined,  ///< and on its way through the phase that ends it
    over,
  };

  /// The local schedule of an earlier call in the same slots, and what its addresses depend on besides.
  struct Expected {
    [[nodiscard]] bool is_for(const Call& call, const Signature& of, const std::byte* in) const noexcept {
      return algorithm == call.algorithm && may_serve(call) && count == call.count && signature == of &&
             send == call.send && recv == call.recv && place == in;
    }
    /// Counts and blocks are looked at each time: of counts a digest alone is signed.
    [[nodiscard]] static bool may_serve(const Call& call) noexcept {
      return call.counts.empty() && call.blocks.empty();
    }

    const AnyAlgorithm* algorithm = nullptr;  ///< none: nothing is kept
    std::uint64_t count = 0;
    Signature signature;
    const std::byte* send = nullptr;
    const std::byte* recv = nullptr;
    const std::byte* place = nullptr;  ///< of this rank's data, as of everybody's
    bool meets_again = false;
    StepList steps;
    StepList after_phase;  ///< if all meet again
  };

  void announce(const Call& call) noexcept;
  Task<> catch_up();
  /// The same, if they come while it spins; false: they do not, or have made another call.
  [[nodiscard]] bool catch_up_here() noexcept;
  /// Whether this call is over before all have been heard of; where a root gives, unless it has referred.
  [[nodiscard]] bool may_go_ahead(const Call& call) const noexcept;
  [[nodiscard]] bool is_awaited(Rank peer, const Call& call) const noexcept {
    return !goes_ahead_ || call.op.needs(membership_.rank, peer, call.root);
  }
  /// All whom this rank waits for come while it spins, and run the same.
  [[nodiscard]] bool meet_here(const Call& call) noexcept;
  /// It has heard of those, and finds that it waits for the others, too: a root has referred.
  [[nodiscard]] bool has_to_wait_for_all() noexcept;
  void bind_slots(const Call& call) noexcept;
  /// Without memory for it lacks_memory_.
  void expect_data(const Call& call) noexcept;
  void record_steps(const Call& call, Expected& expected);
  [[nodiscard]] Expected& expected() noexcept {
    return expected_[host::HostGroup::turn_of(running_.sequence)];
  }
  [[nodiscard]] WindowTable& windows_of(Rank rank) noexcept;
  /// That rank has come. Whether it runs the same.
  [[nodiscard]] bool take_arrival(Rank peer, const Call& call) noexcept;
  Task<> meet(const Call& call);
  /// That rank runs something else under this number: ends by the cancellation that the verdict brings.
  Task<> disagree(Rank peer, std::uint64_t sequence);
  /// Everybody has come. False if a peer has withdrawn its memory; what comes of that is not this rank's to
  /// tell, and asked again it touches nothing.
  [[nodiscard]] bool combine(const Call& call) noexcept;
  /// What cannot be combined ends by the cause that a peer gives, or without memory by std::bad_alloc.
  Task<> end_by_cause();
  [[nodiscard]] bool combine_announced(const Call& call) noexcept;
  [[nodiscard]] bool combine_recorded(const Call& call) noexcept;
  [[nodiscard]] bool combine_on_windows(const Call& call) noexcept;
  Task<> combine_in_turns(const Call& call);
  [[nodiscard]] bool take_references(const Call& call) noexcept;
  void report_nonsense(Rank rank) noexcept;
  void finish(const Call& call) noexcept;

  /// Whether this rank announces by reference, where it may. Each decides for itself; arrivals tell the
  /// others.
  [[nodiscard]] bool refers(const Call& call) const noexcept;
  /// Whether what that rank announces is read by another.
  [[nodiscard]] bool is_read(Rank of, const Call& call) const noexcept;
  [[nodiscard]] bool has_mapped_windows(const Call& call) const noexcept;
  [[nodiscard]] bool bind_windows_of(Rank peer, const Call& call) noexcept;
  void bind_addresses_of(Rank peer, const Call& call) noexcept;
  [[nodiscard]] UserWindows bind_windows(const Call& call) noexcept;

  Engine& engine_;
  const Membership& membership_;
  host::HostGroup& group_;
  LinkOwner& host_;
  RunningOperation& running_;
  MemoryExec& exec_;
  const SharedHeap& heap_;
  const Reach& reach_;
  SlotFilling filling_;
  bool is_one_process_ = false;

  Progress progress_ = Progress::begun;
  CallPlan plan_;            ///< of the call that runs
  bool goes_ahead_ = false;  ///< this call may be over without others
  bool is_ahead_ = false;    ///< and all have not been heard of since
  Signature announced_;      ///< of the call that this rank has come to last
  bool refers_ = false;
  bool lacks_memory_ = false;      ///< for what this call does: it cannot be combined
  bool some_refer_ = false;        ///< of those that have come, to what others read
  bool some_are_filling_ = false;  ///< of those: their data comes in pieces
  MemoryExec::Position done_;      ///< of expected().steps, where they are done in parts
  bool has_waited_ = false;        ///< for the turn of the loop in which they go on
  bool is_bound_ = false;          ///< windows_ are those of this call
  UserWindows windows_ = UserWindows::staged;
  std::array<Expected, host::HostGroup::kTurns> expected_;
};

}  // namespace cohort
