// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/sim/fault_injector.h>

#include <fmt/format.h>

namespace cohort::sim {
namespace {

constexpr int kRankBits = 32;

std::uint64_t pair_of(Rank from, Rank to) { return std::uint64_t{from} << kRankBits | to; }

}  // namespace

FaultInjector::FaultInjector(const Faults& faults, Rank ranks) {
  const bool may_stop = !faults.dead_ranks.empty() || !faults.cancelled_operations.empty();
  if (may_stop) states_.resize(ranks);

  for (const DeadRank& dead : faults.dead_ranks) states_[dead.rank].dies_at = dead.step;
  for (const CancelledOperation& one : faults.cancelled_operations) states_[one.rank].cancels_at = one.step;
  for (const LostLink& link : faults.lost_links) losses_[pair_of(link.from, link.to)] = {link.step, 0};
}

bool FaultInjector::stops(Rank rank, Time now) {
  if (states_.empty()) return false;
  State& state = states_[rank];
  if (!state.end.empty()) return true;
  ++state.steps;
  if (state.steps == state.dies_at) {
    state.end = "died";
    events_.push_back(
        fmt::format("rank {} died at {:.3f} us, in its step {}", rank, in_microseconds(now), state.steps));
  } else if (state.steps == state.cancels_at) {
    state.end = "cancelled";
    events_.push_back(fmt::format("rank {} cancelled its operation at {:.3f} us, in its step {}", rank,
                                  in_microseconds(now), state.steps));
  }
  return !state.end.empty();
}

bool FaultInjector::loses(Rank from, Rank to, Time now) {
  if (losses_.empty()) return false;
  const auto entry = losses_.find(pair_of(from, to));
  if (entry == losses_.end() || ++entry->second.messages < entry->second.step) return false;
  if (entry->second.messages == entry->second.step)
    events_.push_back(fmt::format("the link from rank {} to rank {} was lost at {:.3f} us, with message {}",
                                  from, to, in_microseconds(now), entry->second.step));
  return true;
}

}  // namespace cohort::sim
