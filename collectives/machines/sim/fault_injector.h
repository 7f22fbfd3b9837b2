// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/faults.h>
#include <cohort/collectives/machines/sim/time.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cohort::sim {

/// Counts what ranks do, and says when a fault comes about that stops a rank or loses a message.
class FaultInjector {
 public:
  FaultInjector(const Faults& faults, Rank ranks);

  /// The rank begins one more step. True if it stops in it, or has stopped before.
  [[nodiscard]] bool stops(Rank rank, Time now);
  /// One more message goes from one rank to another. True if it is lost.
  [[nodiscard]] bool loses(Rank from, Rank to, Time now);
  /// "died", "cancelled"; empty while the rank goes on.
  [[nodiscard]] std::string_view end_of(Rank rank) const noexcept {
    return states_.empty() ? std::string_view() : states_[rank].end;
  }
  /// What came about, a line each, in order of time.
  [[nodiscard]] std::vector<std::string> events() const;

 private:
  struct State {
    std::uint64_t steps = 0;
    std::uint64_t dies_at = 0;  ///< 0: never
    std::uint64_t cancels_at = 0;
    std::string_view end;
  };
  struct Loss {
    std::uint64_t step = 0;
    Time at = 0;
    std::uint64_t messages = 0;
    bool is_down = false;
  };

  std::vector<State> states_;  ///< of ranks; empty if none of them may stop
  std::unordered_map<std::uint64_t, Loss> losses_;
  std::vector<std::pair<Time, std::string>> events_;
};

}  // namespace cohort::sim
