// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/agenda.h>
#include <cohort/collectives/machines/sim/fault_injector.h>
#include <cohort/collectives/machines/sim/network.h>
#include <cohort/collectives/machines/sim/processors.h>
#include <cohort/collectives/machines/sim/sim_link.h>
#include <cohort/collectives/machines/stage/line.h>
#include <cohort/collectives/machines/stage/stage.h>
#include <cohort/collectives/schedules/exec.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace cohort::sim {

/// One request on a link, as it is carried out.
struct TraceEvent {
  Time at = 0;
  Rank rank = 0;
  Rank peer = 0;
  LinkOperation::Kind kind{};
  std::size_t bytes = 0;
};
using Trace = std::function<void(const TraceEvent&)>;
/// Now and then, with the number of messages so far.
using Progress = std::function<void(std::uint64_t)>;

/// Who is told what goes on; both may be null.
struct Watchers {
  const Trace* trace = nullptr;
  const Progress* progress = nullptr;
};

/// The machine that predicts: no data, a virtual clock, a network and processors that take time.
///
/// Links buffer whatever is sent: a send is over when its bytes have left.
///
/// Each stream has a time of its own, which may be ahead of the clock: a stream goes on at once when it is
/// known how long its step takes, and only its next request for something that others use too waits until the
/// clock has come so far. So a message costs one event where a rank computes little.
///
/// What happens at one moment happens in an order that the seed chooses; the same seed gives the same run.
class Machine final : public machine::Stage {
 public:
  /// The watchers outlive it.
  Machine(const Topology& topology, Rank ranks, std::uint64_t seed, const Watchers& watchers);

  /// The way from one rank to another on one lane.
  SimLink& link(Rank from, Rank to, Lane lane);
  /// Begins what a link is asked for. True: it is over.
  bool start(LinkOperation& operation, SimLink& link);
  /// The running rank copies, or combines, so many bytes in all.
  void spend(LocalStep::Kind kind, std::size_t bytes);
  /// Begins to wait for all ranks of this one's host. True: the wait is over, since nobody waits any more.
  bool meet(Operation& operation);
  /// The running rank is done.
  void finished();

  /// When the last rank was done.
  [[nodiscard]] Time end() const noexcept { return end_; }
  [[nodiscard]] const Network& network() const noexcept { return network_; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  /// Which faults came about, and who waits for whom when nothing happens any more; empty if all went well.
  [[nodiscard]] std::vector<std::string> complaints() const;

 private:
  using StreamId = machine::StreamId;

  /// What comes of an agenda's entry.
  enum class Action : std::uint8_t { begin, leave, pass, read, resume };
  struct Step {
    Action action = Action::resume;
    StreamId stream = 0;
    Operation* operation = nullptr;
    SimLink* link = nullptr;
    Time work = 0;        ///< of the stream's rank, then
    Time not_before = 0;  ///< the stream goes on
  };
  /// Of the ranks of a host.
  struct WaitingHost {
    Rank expected = 0;
    std::vector<Step> waiting;
    Time last = 0;
  };
  struct Notified {
    machine::Line<Time> posts;
    Operation* wait = nullptr;
    StreamId waiter = 0;
  };

  // Stage:
  void forked(StreamId parent, StreamId child) noexcept override;
  void joined(StreamId parent, std::span<const StreamId> children) noexcept override;
  bool advance() override;
  void stuck() override;
  NotifyId makes_notify(std::uint32_t limit) override;
  void notify_is_gone(NotifyId notify) noexcept override { notified_.erase(notify); }
  void posts(NotifyId notify) noexcept override;
  bool takes_post(NotifyId notify) override;
  void awaits_post(NotifyId notify, Operation& wait) noexcept override;

  void prefetch(const Step& step) const noexcept;
  // True: the stream goes on.
  bool begin(const Step& step);
  bool leave(const Step& step);
  bool pass(const Step& step);
  bool read(const Step& step);
  bool take(LinkOperation& operation, SimLink& link, Time at);
  bool take_over(LinkOperation& operation, const SimLink& link, StreamId stream, Time since,
                 const Arrival& arrival);
  bool resume(const Step& step, Time at);
  void arrive(SimLink& link, const LinkOperation::Request& request, const Arrival& at);

  [[nodiscard]] Time& time_of(StreamId stream);
  [[nodiscard]] Time taking_work(const LinkOperation& operation, const SimLink& link) const;
  [[nodiscard]] SimLink& place(Rank from, Rank to, Lane lane);

  const double copy_picoseconds_per_byte_;
  const double reduce_picoseconds_per_byte_;
  Network network_;
  Processors processors_;
  FaultInjector faults_;
  const Watchers watchers_;
  Agenda<Step> agenda_;
  Time now_ = 0;
  Time end_ = 0;
  std::uint64_t messages_ = 0;
  std::vector<Time> times_;  ///< of streams
  std::unordered_map<std::uint64_t, SimLink> links_;
  std::map<NotifyId, Notified> notified_;
  NotifyId last_notify_ = 0;
  std::vector<WaitingHost> waiting_hosts_;  ///< by host
  std::vector<std::string> waits_;          ///< at the end
};

}  // namespace cohort::sim
