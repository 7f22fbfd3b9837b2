// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/exec.h>
#include <cohort/collectives/machine/line.h>
#include <cohort/collectives/machine/stage.h>
#include <cohort/collectives/sim/network.h>

#include <array>
#include <functional>
#include <memory>
#include <random>
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

/// The machine that predicts: no data, a virtual clock, and a network that takes time.
///
/// Links buffer whatever is sent: a send is over when its bytes have left. Local steps take the time of their
/// rank alone. What happens at one moment happens in an order that the seed chooses; the same seed gives the
/// same run.
class Machine final : public machine::Stage {
 public:
  Machine(const Topology& topology, Rank ranks, std::uint64_t seed, const Trace* trace);
  ~Machine() override;

  /// The way from one rank to another on one lane.
  Link& link(Rank from, Rank to, Lane lane);
  /// The running rank copies, or combines, so many bytes in all.
  void spend(LocalStep::Kind kind, std::size_t bytes);
  /// Begins to wait for all ranks. True: all are here.
  bool meet(Operation& operation);
  /// The running rank is done.
  void finished();

  /// When the last rank was done.
  [[nodiscard]] Time end() const noexcept { return end_; }
  [[nodiscard]] const Network& network() const noexcept { return network_; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  /// Which faults came about, and who waits for whom when nothing happens any more; empty if all went well.
  [[nodiscard]] const std::vector<std::string>& complaints() const noexcept { return complaints_; }

 private:
  class OneLink;
  using StreamId = machine::StreamId;

  struct Waiting {
    LinkOperation* operation = nullptr;
    StreamId stream = 0;
    Time since = 0;
  };
  /// One direction of a link on one lane.
  struct Channel {
    Rank from = 0;
    Rank to = 0;
    Time last_arrival = 0;
    std::array<machine::Line<Time>, kSignals + 1> arrivals;  ///< of each signal; then of bytes
    std::array<Waiting, kSignals + 1> waiting;
  };
  struct RankState {
    Time ready = 0;  ///< until then it is busy with itself
    std::uint64_t steps = 0;
    std::uint64_t dies_at = 0;  ///< 0: never
    double slowness = 1;
    bool is_dead = false;
  };
  struct Event {
    Time at;
    std::uint32_t order;
    std::uint32_t slot;
    friend bool operator>(const Event& a, const Event& b) noexcept {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  struct Completion {
    Operation* operation;
    StreamId stream;
  };
  struct Loss {
    std::uint64_t step = 0;
    std::uint64_t messages = 0;
  };

  // Stage:
  void forked(StreamId, StreamId) noexcept override {}
  void joined(StreamId, std::span<const StreamId>) noexcept override {}
  bool advance() override;
  void stuck() override;
  void notify_posted(Operation& notify, std::uint32_t untaken, std::uint32_t limit) noexcept override;
  void notify_awaited(Operation& notify) override { awaited_[&notify] = running(); }
  void notify_taken(Operation&) noexcept override {}

  bool start(LinkOperation& operation, Channel& out, Channel& in);
  bool start_get(LinkOperation& operation, const Channel& out, Time at);
  bool take(LinkOperation& operation, Channel& in, std::size_t what, Time at);
  void arrive(Channel& channel, std::size_t what, Time at);
  bool dies(Rank rank);
  bool loses(const Channel& channel);
  bool complete_at(Operation& operation, StreamId stream, Time at);
  [[nodiscard]] Time combining(const LinkOperation& operation, Rank rank) const;
  [[nodiscard]] Time local_time(LocalStep::Kind kind, std::size_t bytes, Rank rank) const;
  Channel& channel(Rank from, Rank to, Lane lane);

  const Topology topology_;
  Network network_;
  const Trace* const trace_;
  const bool is_shuffled_;
  std::mt19937 random_;
  Time now_ = 0;
  Time end_ = 0;
  std::uint32_t events_ = 0;
  std::uint64_t messages_ = 0;
  std::vector<RankState> states_;
  std::vector<Event> queue_;  ///< a heap, the next one first
  std::vector<Completion> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::unordered_map<std::uint64_t, std::unique_ptr<OneLink>> links_;
  std::unordered_map<std::uint64_t, Loss> losses_;
  std::unordered_map<Operation*, StreamId> awaited_;
  std::vector<Completion> meeting_;
  std::vector<std::string> complaints_;
};

}  // namespace cohort::sim
