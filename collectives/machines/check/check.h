// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/fault.h>
#include <cohort/collectives/machines/check/finding.h>
#include <cohort/collectives/schedule/algorithm.h>

#include <string>
#include <vector>

namespace cohort::check {

/// What peers on one host can do with memory of the caller's.
enum class UserWindows : std::uint8_t {
  unreachable,  ///< bytes pass through the CCL buffers
  readable,     ///< pull() reads them
  mapped,       ///< copies and reductions may name them, too
};
[[nodiscard]] std::string_view to_string(UserWindows windows) noexcept;

/// One case: how many ranks, how much data, and on what.
struct CheckOptions {
  Rank ranks = 4;
  /// Elements: of the whole buffer for broadcast and all_reduce, of one rank's block for all_gather and
  /// reduce_scatter.
  std::size_t count = 1000;
  Rank root = 0;
  Rank ranks_per_host = 0;  ///< hosts are filled one after another; 0: one host has all ranks
  bool is_in_place = false;
  UserWindows user_windows = UserWindows::unreachable;  ///< others only with needs_mapped_group
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::avg;  ///< avg covers sum, and that it is divided once and last
  std::size_t buffer_bytes = std::size_t{256} << 10;  ///< of each CCL buffer
  std::size_t piece_bytes = ~std::size_t{0};          ///< of a message, at most, as where caches are small
  std::uint32_t operations = 2;                       ///< in a row, on the same CCL buffers
  std::uint32_t untaken_posts = 1;  ///< of a signal, at most: 1 is a flag, more is a counter
  bool is_eager = false;            ///< links that buffer whatever is sent; the default is the strictest
  bool checks_cost = true;
  std::uint64_t seed =
      0;  ///< of the order in which streams run; 0: first in, first out. Results never depend on it.
};

/// What one operation costs, as counted; the most of any rank.
struct Counted {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t bytes_combined = 0;
  std::uint32_t rounds = 0;        ///< messages that follow one another
  std::uint32_t least_rounds = 0;  ///< in which all can hear of all if nobody sends more messages than here
  std::uint64_t bytes_to_all = 0;  ///< received by all ranks together
  std::uint64_t least_to_all = 0;  ///< that no algorithm can do without
};

/// What a check found.
struct Report {
  std::vector<Finding> findings;
  Counted counted;
  std::size_t tasks = 0;
  bool combines_in_rank_order = true;  ///< every result is ((0 + 1) + 2) + ...
  std::string example_of_order;        ///< of one that is not

  [[nodiscard]] bool passed() const noexcept { return findings.empty(); }
  /// One line for each finding: "kind: words".
  [[nodiscard]] std::string text() const;
};

/// Runs the schedule of all ranks on symbolic memory and says what is wrong with it.
///
/// It proves, for this case: each result is exactly the contributions it should be, in one order on all
/// ranks; no two accesses to the same bytes can meet; no notify is lost or posted twice; nobody waits for
/// ever, in whatever order streams run and however little links buffer; slices lie inside their windows;
/// links and lanes are those that needs() asks for. Costs grow with the number of tasks, not with counts.
/// Throws InvalidArgument for options that make no sense. `fault` is for tests of the checker itself.
template <class Op>
[[nodiscard]] Report check(const Algorithm<Op>& algorithm, const CheckOptions& options,
                           const Fault* fault = nullptr);

extern template Report check(const Algorithm<Barrier>&, const CheckOptions&, const Fault*);
extern template Report check(const Algorithm<Broadcast>&, const CheckOptions&, const Fault*);
extern template Report check(const Algorithm<AllReduce>&, const CheckOptions&, const Fault*);
extern template Report check(const Algorithm<AllGather>&, const CheckOptions&, const Fault*);
extern template Report check(const Algorithm<ReduceScatter>&, const CheckOptions&, const Fault*);

/// A schedule by itself, with what it needs, as an algorithm to check: its messages are never cut.
template <class Op>
[[nodiscard]] Algorithm<Op> as_algorithm(Task<> (*schedule)(Exec& x, Op op),
                                         Needs (*needs)(std::size_t bytes, Rank ranks)) {
  const auto no_cost = [](std::size_t, Rank) { return Cost{}; };
  const auto whole = [](std::size_t, Rank) { return ~std::size_t{0}; };
  return {AlgorithmId::mesh, false, no_cost, needs, whole, schedule};
}

}  // namespace cohort::check
