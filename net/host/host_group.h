// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/loop/poll_list.h>
#include <cohort/net/host/host_memory.h>
#include <cohort/net/host/segment.h>
#include <cohort/net/membership.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cohort::host {

class CounterWait;
class Touch;

/// What waits for words in peers' segments, such as a link: polled by the group while it watches.
class Watcher : public ListHook {
 public:
  /// Advances whatever waits; true if anything did.
  virtual bool poll() noexcept = 0;

 protected:
  ~Watcher() = default;
};

/// The ranks of a communicator that share this host's memory: the segment that all map, arrivals, phases,
/// waiting. Members are named by their ranks in the communicator; nobody else may be asked for.
///
/// A source of the engine: while something here is waited for, the loop polls the counters, and when it
/// sleeps a peer's doorbell wakes it. Threads: the engine's. Lifetime: outlives its links and waits.
class HostGroup final : public Source {
 public:
  /// Creates the host's segment, or makes room for it. `members` in rank order, this rank among them.
  /// Isolated: members in this very process are reached as if they were in others. Throws ResourceLimit.
  HostGroup(Engine& engine, const Membership& membership, std::span<const Rank> members,
            std::size_t buffer_bytes, std::size_t heap_bytes, bool is_isolated);
  /// Where a group lies in the segment that is there already: by rank of the group, whose part its region is
  /// in and where it begins there, which is zero at first.
  struct Regions {
    HostGroup& root;
    std::span<const Rank> owners;
    std::span<const std::uint64_t> begins;
    bool is_isolated;
  };
  /// Rides on the segment and the doorbells of the communicator that was joined. Throws ProtocolError for a
  /// region that is none, ResourceLimit.
  HostGroup(Engine& engine, const Membership& membership, std::span<const Rank> members,
            std::size_t buffer_bytes, const Regions& regions);
  ~HostGroup();

  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  /// In rank order, this rank included.
  [[nodiscard]] std::span<const Rank> members() const noexcept { return members_; }

  // Establishing:
  /// What every peer on this host must be given.
  [[nodiscard]] std::vector<int> descriptors_for_peers() const { return memory_->descriptors_for_peers(); }
  /// Takes a member's, and maps its CCL buffers as its windows. Throws ProtocolError when they are not what
  /// they should be.
  void adopt(Rank peer, std::vector<Descriptor> descriptors);
  /// Runs until cancelled; wakes the engine for peers.
  Task<> listen() { return memory_->listener().listen(); }
  [[nodiscard]] bool is_mapped(Rank peer) const noexcept { return segments_[peer].is_mapped(); }
  /// Whether the peer runs in this very process, so that any of its memory can be reached.
  [[nodiscard]] bool is_in_process(Rank peer) const noexcept { return in_process_[peer]; }
  [[nodiscard]] Segment& segment(Rank of) noexcept { return segments_[of]; }
  [[nodiscard]] Segment& own() noexcept { return segments_[rank_]; }

  /// Rings a peer that sleeps. After a seq_cst store that the peer may wait for.
  void notify(Rank peer) noexcept { doorbells_[peer]->ring_if_asleep(engine_.clock()); }
  void notify_all() noexcept;

  // Arrivals: "I am here, and this is what I run".
  [[nodiscard]] ArrivalSlot& own_arrival(std::uint64_t sequence) noexcept { return arrival(rank_, sequence); }
  [[nodiscard]] const ArrivalSlot& arrival(Rank of, std::uint64_t sequence) const noexcept {
    return *arrivals_[of][turn_of(sequence)];
  }
  [[nodiscard]] ArrivalSlot& arrival(Rank of, std::uint64_t sequence) noexcept {
    return *arrivals_[of][turn_of(sequence)];
  }
  /// Before a collective with which data travels: where it lies in every rank's memory, in the ring or, of a
  /// ring of 0 bytes, in the slot.
  void take_payload_place(std::uint64_t sequence, std::size_t bytes, std::size_t ring_bytes) noexcept {
    std::optional<std::size_t>& place = in_ring_[turn_of(sequence)];
    place.reset();
    if (ring_bytes != 0) place = payload_ring_.take(bytes, ring_bytes);
  }
  /// Data of that size which that rank brings to the collective.
  [[nodiscard]] std::byte* payload(Rank of, std::uint64_t sequence, std::size_t bytes) noexcept {
    return bytes <= sizeof(ArrivalSlot::beside_stamp) ? arrival(of, sequence).beside_stamp
                                                      : payload_beyond_words(of, sequence);
  }
  /// The same, of a rank that says in its slot where its buffers are.
  [[nodiscard]] std::byte* payload_beyond_words(Rank of, std::uint64_t sequence) noexcept {
    const std::optional<std::size_t>& place = in_ring_[turn_of(sequence)];
    return place ? segments_[of].at(layout_.payload_ring() + *place) : segments_[of].slot(sequence);
  }
  /// Touches each line of the first `bytes` of that rank's ring and CCL buffers, its own by writing, as they
  /// are after many collectives: the first touch of a page takes longer than such, and lines that no peer has
  /// read since they were written are written faster. Nobody uses them meanwhile.
  void touch_rings(Rank of, std::size_t bytes) noexcept;
  /// Which of its slots a rank uses: collectives take them in turn.
  static constexpr std::size_t kTurns = 2;
  [[nodiscard]] static constexpr std::size_t turn_of(std::uint64_t sequence) noexcept {
    return sequence % kTurns;
  }
  /// Publishes the own slot, which was filled before.
  void announce(std::uint64_t sequence) noexcept;
  /// Says that so many bytes of the own slot are there, of data that comes in pieces after the announcement.
  void tell_filled(std::uint64_t sequence, std::size_t bytes) noexcept {
    own_arrival(sequence).filled.store(static_cast<std::uint32_t>(bytes), std::memory_order_release);
  }
  /// The same of all of them: wakes those who sleep until then.
  void tell_full(std::uint64_t sequence, std::size_t bytes) noexcept;
  [[nodiscard]] bool has_arrived(Rank of, std::uint64_t sequence) const noexcept {
    return has_reached(arrival(of, sequence).stamp.load(std::memory_order_acquire),
                       static_cast<std::uint32_t>(sequence));
  }

  /// Spins for a bounded while for a rank to arrive; false if it did not.
  [[nodiscard]] bool spin_for_arrival(Rank of, std::uint64_t sequence) noexcept {
    return has_arrived(of, sequence) ||
           spin_until(arrival(of, sequence).stamp, static_cast<std::uint32_t>(sequence));
  }

  /// The same for any counter that a peer counts up.
  [[nodiscard]] bool spin_for(const Counter& counter, std::uint32_t target) const noexcept {
    return has_reached(counter.load(std::memory_order_acquire), target) || spin_until(counter, target);
  }

  /// Begins the numbers of collectives anew. Only where all ranks have passed a phase since their last
  /// arrival, and pass one before their next.
  void forget_arrivals() noexcept;

  /// Suspends until the rank has arrived at that collective.
  [[nodiscard]] CounterWait arrived(Rank of, std::uint64_t sequence) noexcept;

  // Peers' user memory is touched by a Touch (net/host/touch.h), and by nothing else. Who works within one:
  [[nodiscard]] bool is_touching() const noexcept { return touching_ != 0; }
  /// Whether a peer has withdrawn its memory: then nothing more may be touched, and what was read may be
  /// torn. From any thread, so that those who help to touch can stop.
  [[nodiscard]] bool is_any_withdrawn() const noexcept { return is_any_withdrawn(members_); }
  /// After a failure: completes when no peer touches this rank's memory any more, nor ever will, which takes
  /// as long as a copy or a reduction of one message. Passes over ranks that are gone, and gives up on one
  /// that is stopped in the middle, which finds at the end of its touch that this was withdrawn.
  Task<> withdraw(std::function<bool(Rank)> is_gone);

  // Phases inside a collective: a barrier of the group's ranks.
  /// Tells everybody that this rank has come this far.
  void arrive_at_phase() noexcept;
  /// Whether that rank has come as far as this one.
  [[nodiscard]] bool has_come_to_phase(Rank of) const noexcept {
    return has_reached(segments_[of].phase().load(std::memory_order_acquire), phase_);
  }
  /// Spins for a bounded while for everybody to come as far as this rank; false if somebody did not.
  [[nodiscard]] bool spin_for_phase() const noexcept;
  /// Waits until everybody has come as far as this rank.
  Task<> wait_for_phase();

  /// Suspends until a counter has reached a value.
  [[nodiscard]] CounterWait until(const Counter& counter, std::uint32_t target) noexcept;

  /// Polls it from now on, until it unlinks itself.
  void watch(Watcher& watcher) noexcept { watchers_.push_back(watcher); }

  /// Where a peer's windows lie in this process, as far as they can be reached, for the collective that runs.
  [[nodiscard]] WindowTable& windows(Rank of) noexcept { return windows_[of]; }
  /// The same of all ranks.
  [[nodiscard]] std::span<const WindowTable> windows() const noexcept { return windows_; }

  // Source:
  bool poll() noexcept override;
  [[nodiscard]] bool is_waited_for() const noexcept override { return !waits_.empty() || !watchers_.empty(); }
  [[nodiscard]] bool arm() noexcept override;
  void disarm() noexcept override { memory_->listener().wake_up(); }

 private:
  friend class CounterWait;
  friend class Touch;

  HostGroup(Engine& engine, const Membership& membership, std::span<const Rank> members, const Layout& layout,
            std::shared_ptr<HostMemory> memory, bool is_isolated);
  bool spin_until(const Counter& counter, std::uint32_t target) const noexcept;
  /// Takes what a member has at `begin` of that rank's part, and its lines.
  void bind_places_of(Rank member, Rank owner, std::size_t begin, std::byte* lines) noexcept;
  // A touch may begin within another one, as of a link within a schedule that touches memory itself:
  /// Says that this rank touches memory of these; false, and then it does not, if one has withdrawn its own.
  [[nodiscard]] bool begin_touching(std::span<const Rank> owners) noexcept;
  void end_touching() noexcept;
  [[nodiscard]] bool is_any_withdrawn(std::span<const Rank> owners) const noexcept;

  Engine& engine_;
  const Rank rank_;
  const std::vector<Rank> members_;
  const Layout layout_;
  const std::shared_ptr<HostMemory> memory_;
  // By rank of the communicator; empty for those that are no members:
  std::vector<Segment> segments_;
  std::vector<Doorbell*> doorbells_;
  std::vector<std::array<ArrivalSlot*, kTurns>> arrivals_;
  std::vector<WindowTable> windows_;
  std::vector<bool> in_process_;
  PayloadRing payload_ring_;
  std::array<std::optional<std::size_t>, kTurns> in_ring_;  ///< where the data of the last collectives is
  bool may_spin_ = true;
  std::uint32_t phase_ = 0;
  std::uint32_t touching_ = 0;  ///< touches that have not ended

  IntrusiveList<CounterWait> waits_;
  PollList<Watcher> watchers_;
};

/// `co_await group.until(counter, value)`: looks, spins for a while, and only then suspends.
class CounterWait final : public ListHook {
 public:
  CounterWait(HostGroup& group, const Counter& counter, std::uint32_t target) noexcept
      : group_(group), counter_(counter), target_(target), operation_(*this) {}

  bool await_ready() const noexcept {
    return is_over() || (group_.may_spin_ && group_.spin_until(counter_, target_));
  }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
    if (!operation_.begin(waiter, detail::scope_of(waiter))) return false;
    group_.waits_.push_back(*this);
    return true;
  }
  void await_resume() const { operation_.check(); }

 private:
  friend class HostGroup;

  /// The group's list holds the wait, the cancel scope's list holds its operation.
  class Wait final : public Operation {
   public:
    explicit Wait(CounterWait& owner) noexcept : owner_(owner) {}
    bool begin(std::coroutine_handle<> waiter, CancelScope* scope) noexcept { return suspend(waiter, scope); }
    void end() noexcept { complete(); }
    void check() const { throw_if_cancelled(); }

   private:
    void request_cancel() noexcept override {
      owner_.unlink();
      complete_cancelled();
    }
    CounterWait& owner_;
  };

  [[nodiscard]] bool is_over() const noexcept {
    return has_reached(counter_.load(std::memory_order_seq_cst), target_);
  }

  HostGroup& group_;
  const Counter& counter_;
  const std::uint32_t target_;
  Wait operation_;
};

inline CounterWait HostGroup::until(const Counter& counter, std::uint32_t target) noexcept {
  return CounterWait(*this, counter, target);
}

inline CounterWait HostGroup::arrived(Rank of, std::uint64_t sequence) noexcept {
  return until(arrival(of, sequence).stamp, static_cast<std::uint32_t>(sequence));
}

}  // namespace cohort::host
