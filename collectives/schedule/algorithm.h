// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/exec.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace cohort {

enum class AlgorithmId : std::uint8_t {
  one_shot,            ///< everybody sends everything to everybody: one round, for small messages
  mesh,                ///< every pair exchanges its share directly, all at once
  ring,                ///< neighbours pass blocks on: the optimal volume on any topology
  recursive_doubling,  ///< partners at distance 1, 2, 4, ...: few messages, for small data
  tree,                ///< up a binomial tree and down again: the fewest messages, where ranks share cores
  direct,              ///< loads and stores on mapped memory: for ranks of one host
};
inline constexpr std::size_t kAlgorithms = 6;

std::string_view to_string(AlgorithmId id) noexcept;
/// The names of all of them.
std::span<const std::string_view> algorithm_names() noexcept;
std::optional<AlgorithmId> parse_algorithm(std::string_view text) noexcept;

/// Counted from a schedule's rules: what selection compares. The first three are of the rank that has most.
struct Cost {
  double rounds = 0;         ///< messages that follow one another
  double bytes_moved = 0;    ///< sent, or copied from a peer
  double bytes_reduced = 0;  ///< combined
  double messages = 0;       ///< that all ranks send, together
  double bytes_by_all = 0;   ///< that they hold
};

/// What one run of a schedule needs before it starts. Computed once per tag and kept.
struct Needs {
  bool links_to_all = false;
  bool links_to_neighbours = false;
  std::size_t scratch_bytes = 0;
  Lane lanes = 1;
};

/// One algorithm for one operator: what it costs, what it needs, and the schedule.
///
/// `bytes` is Op::size_bytes() of the piece that a run handles. A message above largest_piece is run in
/// pieces.
template <class Op>
struct Algorithm {
  AlgorithmId id;
  bool needs_mapped_group;  ///< every rank of the communicator on this host, over shared memory
  Cost (*cost)(std::size_t bytes, Rank ranks);
  Needs (*needs)(std::size_t bytes, Rank ranks);
  /// The largest piece one run can handle with CCL buffers and scratch of `buffer_bytes` each.
  std::size_t (*largest_piece)(std::size_t buffer_bytes, Rank ranks);
  Task<> (*schedule)(Exec& x, Op op);
};

/// The algorithms of an operator, in the order in which equals are preferred. Defined in
/// algorithms/table.cpp.
template <class Op>
std::span<const Algorithm<Op>> algorithms();

template <>
std::span<const Algorithm<Barrier>> algorithms();
template <>
std::span<const Algorithm<Broadcast>> algorithms();
template <>
std::span<const Algorithm<AllReduce>> algorithms();
template <>
std::span<const Algorithm<AllGather>> algorithms();
template <>
std::span<const Algorithm<ReduceScatter>> algorithms();

}  // namespace cohort
