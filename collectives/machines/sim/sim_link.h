// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/time.h>
#include <cohort/collectives/machines/stage/line.h>
#include <cohort/collectives/machines/stage/stage.h>
#include <cohort/net/link.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cohort::sim {

class Machine;

/// When a message's first byte was there, and when its last.
struct Arrival {
  Time first = 0;
  Time last = 0;
};

/// What comes of one kind, bytes or a signal, and who waits for it.
struct Flow {
  LinkOperation* waiting = nullptr;
  machine::StreamId stream = 0;
  Time since = 0;
  machine::Line<Arrival> arrivals;
};

/// One rank's end of a link on a Machine.
class SimLink final : public Link {
 public:
  SimLink(Machine& machine, Rank rank, Rank peer) noexcept : Link(peer), machine_(machine), rank_(rank) {}

  [[nodiscard]] Rank rank() const noexcept { return rank_; }
  [[nodiscard]] std::string_view transport() const noexcept override { return "sim"; }

  /// The peer's end.
  [[nodiscard]] SimLink& reverse() const noexcept { return *reverse_; }
  [[nodiscard]] bool is_joined() const noexcept { return reverse_ != nullptr; }
  void join(SimLink& reverse) noexcept {
    reverse_ = &reverse;
    reverse.reverse_ = this;
  }

  /// Where a message arrives, or is waited for.
  [[nodiscard]] Flow& flow(const LinkOperation::Request& request) noexcept {
    using Kind = LinkOperation::Kind;
    const bool is_signal =
        request.kind == Kind::post || request.kind == Kind::wait || request.kind == Kind::put;
    return flows_[is_signal ? 1 + static_cast<std::size_t>(request.signal) : 0];
  }
  [[nodiscard]] const std::array<Flow, 1 + kSignals>& flows() const noexcept { return flows_; }
  /// Effects of one link arrive in order.
  [[nodiscard]] Arrival in_order(Arrival arrival) noexcept {
    arrival.first = std::max(arrival.first, last_arrival_);
    arrival.last = last_arrival_ = std::max(arrival.last, last_arrival_);
    return arrival;
  }

 private:
  bool start(LinkOperation& operation) override;
  void cancel(LinkOperation& operation) noexcept override { operation.finish(); }

  Machine& machine_;
  SimLink* reverse_ = nullptr;
  const Rank rank_;
  Time last_arrival_ = 0;
  std::array<Flow, 1 + kSignals> flows_;  ///< bytes, then signals
};

}  // namespace cohort::sim
