// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/fault_injector.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::sim {
FaultInjector::FaultInjector(const Faults& faults, Rank ranks) {
  const bool may_stop = !faults.dead_ranks.empty() || !faults.cancelled_operations.empty();
  if (may_stop) states_.resize(ranks);

  for (const DeadRank& dead : faults.dead_ranks) states_[dead.rank].dies_at = dead.step;
  for (const CancelledOperation& one : faults.cancelled_operations) states_[one.rank].cancels_at = one.step;
  for (const LostLink& link : faults.lost_links)
    losses_[pair_of(link.from, link.to)] = {.step = link.step, .at = from_nanoseconds(link.at_ns)};
}

bool FaultInjector::stops(Rank rank, Time now) {
  if (states_.empty()) return false;
  State& state = states_[rank];
  if (!state.end.empty()) return true;
  ++state.steps;
  if (state.steps == state.dies_at) {
    state.end = "died";
    events_.emplace_back(now, fmt::format("rank {} died at {:.3f} us, in its step {}", rank,
                                          in_microseconds(now), state.steps));
  } else if (state.steps == state.cancels_at) {
    state.end = "cancelled";
    events_.emplace_back(now, fmt::format("rank {} cancelled its operation at {:.3f} us, in its step {}",
                                          rank, in_microseconds(now), state.steps));
  }
  return !state.end.empty();
}

bool FaultInjector::loses(Rank from, Rank to, Time now) {
  if (losses_.empty()) return false;
  const auto entry = losses_.find(pair_of(from, to));
  if (entry == losses_.end()) return false;
  Loss& loss = entry->second;
  if (++loss.messages < loss.step || now < loss.at) return false;
  if (!std::exchange(loss.is_down, true))
    events_.emplace_back(
        now, fmt::format("the link from rank {} to rank {} was lost at {:.3f} us, with message {}", from, to,
                         in_microseconds(now), loss.messages));
  return true;
}

std::vector<std::string> FaultInjector::events() const {
  auto sorted = events_;
  std::ranges::stable_sort(sorted, {}, &std::pair<Time, std::string>::first);
  std::vector<std::string> lines;
  for (auto& [at, line] : sorted) lines.push_back(std::move(line));
  return lines;
}

}  // namespace cohort::sim
