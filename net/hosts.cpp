// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/hosts.h>

#include <cohort/engine/assert.h>

#include <numeric>
#include <unordered_map>

namespace cohort {
namespace {

/// Sorts ranks by a number that each has, from 0 on, those of one number as they stand in `order`, and says
/// where those of each number begin.
void sort_by(const std::vector<Rank>& number_of, std::span<const Rank> order, std::vector<Rank>& sorted,
             std::vector<Rank>& first) {
  first.assign(*std::max_element(number_of.begin(), number_of.end()) + 2, 0);
  for (const Rank number : number_of) ++first[number + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<Rank> next(first);
  sorted.resize(number_of.size());
  for (const Rank rank : order) sorted[next[number_of[rank]]++] = rank;
}

}  // namespace

Hosts::Hosts(Rank ranks) { number(std::vector<Rank>(ranks, 0)); }

Hosts::Hosts(std::span<const Rank> host_of) { number(host_of); }

Hosts Hosts::apart(Rank ranks) {
  std::vector<Rank> host_of(ranks);
  std::iota(host_of.begin(), host_of.end(), Rank{0});
  return Hosts(host_of);
}

Hosts Hosts::below_switches(Rank hosts_per_switch) const {
  Hosts hosts = *this;
  hosts.switches_ = nullptr;
  if (hosts_per_switch == 0) return hosts;
  std::vector<Rank> switch_of;
  for (Rank host = 0; host < count(); ++host) switch_of.push_back(host / hosts_per_switch);
  hosts.switches_ = std::make_shared<const Hosts>(switch_of);
  return hosts;
}

Hosts Hosts::with_bandwidths(std::span<const std::uint32_t> of_host) const {
  COHORT_ASSERT(of_host.size() == count(), "{} hosts have {} bandwidths", count(), of_host.size());
  Hosts hosts = *this;
  hosts.sum_bandwidths(std::vector<std::uint64_t>(of_host.begin(), of_host.end()));
  return hosts;
}

Hosts Hosts::among(std::span<const Rank> ranks) const {
  std::vector<Rank> host_of;
  for (const Rank rank : ranks) host_of.push_back(host_of_[rank]);
  Hosts hosts(host_of);
  std::vector<Rank> those;
  std::vector<std::uint64_t> bandwidths;
  for (Rank host = 0; host < hosts.count(); ++host) {
    const Rank here = those.emplace_back(host_of[hosts.first_of(host)]);
    bandwidths.push_back(bandwidth_before_[here + 1] - bandwidth_before_[here]);
  }
  hosts.sum_bandwidths(bandwidths);
  if (switches_ == nullptr) return hosts;
  hosts.switches_ = std::make_shared<const Hosts>(switches_->among(those));
  return hosts;
}

void Hosts::sum_bandwidths(std::span<const std::uint64_t> of_host) {
  bandwidth_before_.clear();
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;  // below, no product in elements_before() overflows
  for (int shift = 0; bandwidth_before_.empty() || bandwidth_before_.back() >= kMost; ++shift) {
    bandwidth_before_.assign(1, 0);
    for (const std::uint64_t one : of_host)
      bandwidth_before_.push_back(bandwidth_before_.back() + std::max<std::uint64_t>(one >> shift, 1));
  }
}

void Hosts::number(std::span<const Rank> host_of) {
  COHORT_ASSERT(!host_of.empty(), "a communicator has {} ranks", host_of.size());
  std::unordered_map<Rank, Rank> numbers;
  std::vector<Rank> sizes;
  for (const Rank given : host_of) {
    const Rank host = numbers.emplace(given, static_cast<Rank>(numbers.size())).first->second;
    if (host == sizes.size()) sizes.push_back(0);
    host_of_.push_back(host);
    place_of_.push_back(sizes[host]++);
  }
  std::vector<Rank> in_rank_order(host_of.size());
  std::iota(in_rank_order.begin(), in_rank_order.end(), Rank{0});
  sort_by(host_of_, in_rank_order, by_host_, first_of_host_);
  sort_by(place_of_, by_host_, by_place_, first_of_place_);
  sum_bandwidths(std::vector<std::uint64_t>(count(), 1));
  const std::size_t size = host_of_.size();
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    Rank ahead = 0;
    Rank swaps = 0;
    for (std::size_t rank = 0; rank < size; ++rank) {
      const std::size_t other = rank ^ distance;
      ahead += host_of_[rank] == host_of_[(rank + distance) % size] ? 1 : 0;
      swaps += other < size && host_of_[rank] == host_of_[other] ? 1 : 0;
    }
    inside_at_powers_.push_back(ahead);
    inside_at_swaps_.push_back(swaps);
  }
}

bool Hosts::are_bandwidths_equal() const noexcept {
  for (Rank host = 0; host < count(); ++host)
    if (bandwidth_before_[host] != host * bandwidth_before_[1]) return false;
  return bandwidth_before_.back() == count() * bandwidth_before_[1];
}

double Hosts::pairs_inside() const noexcept {
  double pairs = 0;
  for (Rank host = 0; host < count(); ++host) pairs += size_of(host) * (size_of(host) - 1.0);
  return pairs;
}

}  // namespace cohort
