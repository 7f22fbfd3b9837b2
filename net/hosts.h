// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/rank.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace cohort {

/// Of a host, in the unit of the job. Gbit/s and Mbit/s fit.
inline constexpr std::uint32_t kMostHostBandwidth = 1U << 20;

/// Which ranks share the memory of a host: a partition of all ranks, the same on each of them.
///
/// Hosts are numbered by their first ranks, and the *place* of a rank is its number among those of its host.
/// Which hosts are below one switch is the same again, with hosts in place of ranks and switches in place of
/// hosts, where that is known.
///
/// What is cut among hosts is cut by the bandwidths of their networks, which are the same unless they are
/// given.
class Hosts {
 public:
  /// All ranks on one host.
  Hosts(Rank ranks = 1);  // NOLINT(google-explicit-constructor)
  /// `host_of`: for each rank any number, the same for ranks of one host.
  explicit Hosts(std::span<const Rank> host_of);
  /// A host for each rank.
  [[nodiscard]] static Hosts apart(Rank ranks);
  /// The same, with so many hosts below each switch, in the order of hosts, but for the last; 0: that is not
  /// known.
  [[nodiscard]] Hosts below_switches(Rank hosts_per_switch) const;
  /// The same, with networks of these bandwidths, by host, each at least 1, in any unit: only proportions
  /// count.
  [[nodiscard]] Hosts with_bandwidths(std::span<const std::uint32_t> of_host) const;
  /// Of some of the ranks, which are called 0, 1, ... in the order in which they are given.
  [[nodiscard]] Hosts among(std::span<const Rank> ranks) const;

  [[nodiscard]] Rank ranks() const noexcept { return static_cast<Rank>(host_of_.size()); }
  [[nodiscard]] Rank count() const noexcept { return static_cast<Rank>(first_of_host_.size()) - 1; }
  [[nodiscard]] Rank host_of(Rank rank) const noexcept { return host_of_[rank]; }
  [[nodiscard]] Rank place_of(Rank rank) const noexcept { return place_of_[rank]; }
  /// In rank order.
  [[nodiscard]] std::span<const Rank> ranks_of(Rank host) const noexcept {
    return list(by_host_, first_of_host_, host);
  }
  [[nodiscard]] Rank first_of(Rank host) const noexcept { return ranks_of(host).front(); }
  [[nodiscard]] Rank size_of(Rank host) const noexcept { return static_cast<Rank>(ranks_of(host).size()); }
  /// The ranks in that place of all hosts that are so large, in the order of hosts.
  [[nodiscard]] std::span<const Rank> ranks_at(Rank place) const noexcept {
    return list(by_place_, first_of_place_, place);
  }
  /// Of the largest host.
  [[nodiscard]] Rank most_ranks() const noexcept { return static_cast<Rank>(first_of_place_.size()) - 1; }
  /// Who of a host speaks to a rank for all of it: the one in the same place, counted around where the host
  /// is smaller.
  [[nodiscard]] Rank middle(Rank host, Rank rank) const noexcept {
    return ranks_of(host)[place_of(rank) % size_of(host)];
  }
  /// Whether all hosts have as many ranks.
  [[nodiscard]] bool are_equal() const noexcept { return most_ranks() * count() == ranks(); }

  /// Of so many elements that are cut among the hosts by their bandwidths: how many are for those before this
  /// one, which may be count(). The same on all ranks, whatever computes it.
  [[nodiscard]] std::size_t elements_before(Rank host, std::size_t elements) const noexcept {
    const std::uint64_t before = bandwidth_before_[host];
    const std::uint64_t all = bandwidth_before_.back();
    return elements / all * before + elements % all * before / all;
  }
  [[nodiscard]] bool are_bandwidths_equal() const noexcept;

  /// Hosts, called by their numbers, in place of ranks, and switches in place of hosts; null where it is not
  /// known which they are.
  [[nodiscard]] const Hosts* switches() const noexcept { return switches_.get(); }

  /// How many ranks share their host with the rank 2^k ahead, around the ring: for each such distance below
  /// ranks().
  [[nodiscard]] std::span<const Rank> inside_at_powers() const noexcept { return inside_at_powers_; }
  /// The same of the rank whose number differs in bit k, where there is one.
  [[nodiscard]] std::span<const Rank> inside_at_swaps() const noexcept { return inside_at_swaps_; }
  /// Of all ranks * (ranks - 1), both ways.
  [[nodiscard]] double pairs_inside() const noexcept;

  /// Whatever is known of switches and bandwidths.
  bool operator==(const Hosts& other) const noexcept { return host_of_ == other.host_of_; }

 private:
  [[nodiscard]] static std::span<const Rank> list(const std::vector<Rank>& all,
                                                  const std::vector<Rank>& first, Rank index) noexcept {
    return std::span(all).subspan(first[index], first[index + 1] - first[index]);
  }
  void number(std::span<const Rank> host_of);
  void sum_bandwidths(std::span<const std::uint64_t> of_host);

  std::vector<Rank> host_of_;
  std::vector<Rank> place_of_;
  std::vector<Rank> by_host_;  ///< ranks, those of a host side by side
  std::vector<Rank> first_of_host_;
  std::vector<Rank> by_place_;  ///< ranks, those of a place side by side
  std::vector<Rank> first_of_place_;
  std::vector<Rank> inside_at_powers_;
  std::vector<Rank> inside_at_swaps_;
  std::vector<std::uint64_t> bandwidth_before_;  ///< of all hosts before each, and of all
  std::shared_ptr<const Hosts> switches_;
};

}  // namespace cohort
