// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/host_plan.h>
#include <cohort/collectives/schedules/operators/combine.h>
#include <cohort/net/hosts.h>
#include <cohort/net/link.h>
#include <cohort/streams/schedule_streams.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

class Exec;

/// A slice of some rank's window.
struct PlacedSlice {
  Rank rank = 0;
  Slice slice;
};

/// A step on this rank's own memory, or on peers' memory that is mapped here: a copy, a reduction, or the
/// division that ends an average.
///
/// Awaited, it is done where it stands, or in parts, with turns for others on the engine between them. What
/// its spans name outlives it.
class LocalStep : Immovable {
 public:
  enum class Kind : std::uint8_t { copy, reduce, finish_average };

  /// A reduction.
  LocalStep(Exec& exec, std::span<const PlacedSlice> outputs, std::span<const PlacedSlice> inputs,
            const Combine& combine) noexcept
      : exec_(exec), kind_(Kind::reduce), outputs_(outputs), inputs_(inputs), combine_(combine) {}
  /// One of another kind, from one place to one.
  LocalStep(Exec& exec, Kind kind, const PlacedSlice& to, const PlacedSlice& from,
            const Combine& combine = {}) noexcept
      : exec_(exec), kind_(kind), to_(to), from_(from), combine_(combine) {}

  inline bool await_ready();
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter);
  void await_resume() {
    if (rest_) rest_.handle().promise().take();
  }

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  /// All as large as each other.
  [[nodiscard]] std::span<const PlacedSlice> outputs() const noexcept {
    return kind_ == Kind::reduce ? outputs_ : std::span(&to_, 1);
  }
  /// In the order of combination for a reduction; else one.
  [[nodiscard]] std::span<const PlacedSlice> inputs() const noexcept {
    return kind_ == Kind::reduce ? inputs_ : std::span(&from_, 1);
  }
  [[nodiscard]] const Combine& combine() const noexcept { return combine_; }

  // For the machine:
  /// Of each output.
  [[nodiscard]] std::size_t size_bytes() const noexcept { return outputs().front().slice.bytes; }
  /// How many of them are done, from the first on: the machine's own.
  [[nodiscard]] std::size_t& done_bytes() noexcept { return done_bytes_; }

 private:
  Exec& exec_;
  Kind kind_;
  std::span<const PlacedSlice> outputs_;
  std::span<const PlacedSlice> inputs_;
  PlacedSlice to_;
  PlacedSlice from_;
  Combine combine_;
  std::size_t done_bytes_ = 0;
  Task<> rest_;
};

/// What a schedule runs on: the same interface for real memory and networks, for the checker and for the
/// simulator.
///
/// A schedule is a coroutine over Exec: it names ranks, slices, links and streams, and its control flow
/// depends on these alone, never on data. Lifetime: one collective.
class Exec : Immovable {
 public:
  virtual ~Exec() = default;

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] Rank size() const noexcept { return size_; }
  /// The rank `distance` ahead, around the ring.
  [[nodiscard]] Rank ahead(Rank distance) const noexcept { return (rank_ + distance) % size_; }
  /// The rank `distance` behind, around the ring.
  [[nodiscard]] Rank behind(Rank distance) const noexcept {
    return (rank_ + size_ - distance % size_) % size_;
  }
  /// Everybody else, nearest ahead first, so that not all ranks begin with the same peer.
  [[nodiscard]] std::span<const Rank> peers() const {
    if (peers_.empty()) list_peers();
    return peers_;
  }

  /// Which ranks share a host's memory: the same answer on every rank. Of a level across hosts of equal size:
  /// which of its ranks, one of each host, are below one switch, where that is known.
  [[nodiscard]] virtual const Hosts& hosts() const = 0;
  /// Those of this rank's host, itself included, in rank order.
  [[nodiscard]] std::span<const Rank> ranks_of_host() const {
    return hosts().ranks_of(hosts().host_of(rank_));
  }

  // Levels: some of the ranks as an Exec of their own, on which they are called 0, 1, ... and any schedule
  // over links runs as if there were no others. A level uses the links, memory and streams of this Exec,
  // which keeps it.
  /// The ranks of this host, called by their places in it.
  [[nodiscard]] Exec& inside();
  /// The ranks that have this one's place in their hosts, in the order of hosts: one of each, if all are so
  /// large, as they always are for the first rank of a host.
  [[nodiscard]] Exec& across();
  /// What this rank is called where all are: the rank of its own windows in a PlacedSlice.
  [[nodiscard]] Rank here() const noexcept { return here_; }
  /// The same of others.
  [[nodiscard]] Rank rank_of(Rank rank) const noexcept {
    return ranks_.empty() ? rank : whole_.rank_of(ranks_[rank]);
  }
  /// scratch() of a level begins there in that of the Exec whose level it is.
  void use_scratch_from(std::size_t at) noexcept { scratch_at_ = whole_.scratch_at_ + at; }

  /// The link to a peer, established when the collective's resources were computed.
  [[nodiscard]] virtual Link& link(Rank peer, Lane lane = 0) = 0;

  /// How this call moves its bytes between the ranks of a host.
  [[nodiscard]] const HostPlan& plan() const noexcept { return plan_; }
  /// How many bytes ccl_in() and ccl_out() have.
  [[nodiscard]] virtual std::size_t ccl_bytes() const noexcept = 0;
  /// Within a node peers may still read and write CCL buffers of a rank that has left the operation: it
  /// touches them again only after all have met for the next one. Not so user windows, nor pieces that
  /// largest_piece cuts, which have one arrival for all.
  [[nodiscard]] Slice ccl_in(std::size_t at, std::size_t bytes) const noexcept {
    return {WindowId::ccl_in, at, bytes};
  }
  [[nodiscard]] Slice ccl_out(std::size_t at, std::size_t bytes) const noexcept {
    return {WindowId::ccl_out, at, bytes};
  }
  [[nodiscard]] Slice scratch(std::size_t at, std::size_t bytes) const noexcept {
    return {WindowId::scratch, scratch_at_ + at, bytes};
  }

  /// Whether there are bytes behind slices. Where there are none, as in a simulation, a copy takes time and
  /// does nothing else: many in a row may then be one of as many bytes.
  [[nodiscard]] virtual bool has_memory() const noexcept { return true; }

  /// Copies within this rank.
  [[nodiscard]] LocalStep copy(const Slice& to, const Slice& from) noexcept {
    return {whole_, LocalStep::Kind::copy, PlacedSlice{here_, to}, PlacedSlice{here_, from}};
  }
  /// Copies from a mapped peer's window.
  [[nodiscard]] LocalStep copy_from(Rank peer, const Slice& to, const Slice& from) noexcept {
    return {whole_, LocalStep::Kind::copy, PlacedSlice{here_, to}, PlacedSlice{rank_of(peer), from}};
  }
  /// Copies to a mapped peer's window; to a user window only if the plan maps them.
  [[nodiscard]] LocalStep copy_to(Rank peer, const Slice& to, const Slice& from) noexcept {
    return {whole_, LocalStep::Kind::copy, PlacedSlice{rank_of(peer), to}, PlacedSlice{here_, from}};
  }
  /// Copies from a peer's user window; only if the plan reaches it.
  [[nodiscard]] virtual Task<> pull(Rank peer, Slice to, Slice from) = 0;
  /// Copies to a peer's user window; only if the plan reaches it.
  [[nodiscard]] virtual Task<> push(Rank peer, Slice to, Slice from) = 0;
  /// outputs[j][i] = inputs[0][i] op inputs[1][i] op ..., left to right, averaged at the end if `combine`
  /// says so.
  [[nodiscard]] LocalStep reduce(std::span<const PlacedSlice> outputs, std::span<const PlacedSlice> inputs,
                                 const Combine& combine) noexcept {
    return {whole_, outputs, inputs, combine};
  }
  /// How a link combines what it receives.
  [[nodiscard]] virtual Reducer reducer(const Combine& combine) const noexcept = 0;
  /// The same of the last contribution: averages in the same step, so that all is rounded once.
  [[nodiscard]] Reducer last_reducer(const Combine& combine) const noexcept {
    Reducer last = reducer(combine);
    last.average_over = combine.average_over;
    return last;
  }
  /// The last step of avg on a finished sum: divides in place. Nothing for other operators.
  [[nodiscard]] LocalStep finish_average(const Combine& combine, const Slice& sum) noexcept {
    return {whole_, LocalStep::Kind::finish_average, PlacedSlice{here_, sum}, PlacedSlice{here_, sum},
            combine};
  }

  // What the ranks of a host announced as they met, for local schedules:
  /// Where each rank's input lies, in rank order: in its slot, or, announced by reference, in its send
  /// window.
  [[nodiscard]] std::span<const PlacedSlice> announced() const noexcept { return announced_; }
  /// Whether that rank's input stayed where it was, in memory that all map, as its result is.
  [[nodiscard]] bool has_referred(Rank of) const noexcept {
    return !announced_.empty() && announced_[of].slice.window == WindowId::send;
  }
  /// Then everybody's user windows are mapped here.
  [[nodiscard]] bool all_referred() const noexcept { return referring_ == size_; }
  [[nodiscard]] bool none_referred() const noexcept { return referring_ == 0; }
  /// This rank's slot: its own to write to if it has referred, until it announces again.
  [[nodiscard]] Slice slot(std::size_t bytes) const noexcept { return {WindowId::slot, 0, bytes}; }
  /// For the machine: everybody has met, and that rank announced so many bytes. The first one allocates.
  void take_announcement(Rank of, std::size_t bytes, bool by_reference) {
    if (announced_.empty()) announced_.assign(size_, {0, {WindowId::slot, 0, 0}});
    referring_ -= has_referred(of) ? 1 : 0;
    announced_[of] = {of, {by_reference ? WindowId::send : WindowId::slot, 0, bytes}};
    referring_ += by_reference ? 1 : 0;
  }

  /// For the machine: makes what local schedules and announcements need, which must not throw later.
  void reserve_lists();

  /// Everybody has come this far. Only on a host-wide group (maps ccl windows); one counter per rank.
  [[nodiscard]] virtual Task<> phase() = 0;

  /// Runs body(item) for every item, each on a sub stream of its own, and joins them: streams run
  /// concurrently, what one body awaits runs in order. The stream that forks goes on when all are done; the
  /// first failure cancels the others.
  template <std::ranges::range Items, class Body>
  [[nodiscard]] ForkJoin fork_join(const Items& items, Body& body) {
    return streams_.fork_join(items, body);
  }
  /// The same for different bodies at once: fork_join(take, pass).
  template <std::invocable<>... Body>
  [[nodiscard]] ForkJoin fork_join(Body&... bodies) {
    return streams_.fork_join(bodies...);
  }
  /// A notify between streams of this rank, which may hold `limit` posts that nobody has taken.
  [[nodiscard]] LocalNotify notify(std::uint32_t limit = 1) { return streams_.notify(limit); }
  [[nodiscard]] ScheduleStreams& streams() noexcept { return streams_; }

  /// Carries out a step on memory, whole. For LocalStep, and for local schedules.
  virtual void perform(const LocalStep& step) = 0;
  /// As far as it goes before others on the engine should have a turn; true: it is over. For LocalStep.
  [[nodiscard]] virtual bool perform_awhile(LocalStep& step) {
    perform(step);
    return true;
  }
  /// What perform_awhile() has left, in turns with others.
  [[nodiscard]] virtual Task<> perform_rest(LocalStep& step);

  /// An empty list, which is kept for the next collective when it is given back, so that schedules allocate
  /// nothing.
  [[nodiscard]] std::vector<PlacedSlice> lease_places();
  void give_back(std::vector<PlacedSlice> places);

 protected:
  /// A machine without real memory watches the streams of its ranks.
  Exec(Rank rank, Rank size, StreamWatcher* watcher = nullptr);
  /// A level of another one, which outlives it: these of its ranks.
  Exec(Exec& whole, Rank rank, std::span<const Rank> ranks) noexcept;

  /// For the machine: to be set before a schedule runs. A level has its own, of ranks that share no plan.
  [[nodiscard]] HostPlan& own_plan() noexcept { return plan_; }
  [[nodiscard]] Exec& whole() noexcept { return whole_; }
  [[nodiscard]] const Exec& whole() const noexcept { return whole_; }
  [[nodiscard]] std::span<const Rank> ranks() const noexcept { return ranks_; }

 private:
  void list_peers() const;

  const Rank rank_;
  const Rank size_;
  HostPlan plan_;
  mutable std::vector<Rank> peers_;     ///< made when first asked for: many schedules never do
  std::vector<PlacedSlice> announced_;  ///< made when there are some
  Rank referring_ = 0;
  std::vector<std::vector<PlacedSlice>> place_lists_;

  // Of a level:
  Exec& whole_;                  ///< itself if it is none
  const Rank here_;              ///< among all ranks
  std::span<const Rank> ranks_;  ///< what those of the level are called there; empty: the same
  std::size_t scratch_at_ = 0;

  std::optional<ScheduleStreams> own_streams_;  ///< not of a level
  ScheduleStreams& streams_;

  // Made when first asked for:
  std::unique_ptr<Exec> inside_;
  std::unique_ptr<Exec> across_;
};

inline bool LocalStep::await_ready() { return exec_.perform_awhile(*this); }

template <class P>
bool LocalStep::await_suspend(std::coroutine_handle<P> waiter) {
  rest_ = exec_.perform_rest(*this);
  return Task<>::Awaiter(rest_.handle()).await_suspend(waiter);
}

}  // namespace cohort
