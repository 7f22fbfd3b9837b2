// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/fault.h>
#include <cohort/collectives/machines/check/finding.h>
#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/host_plan.h>

#include <string>
#include <vector>

namespace cohort::check {

/// Which ranks announce their input by reference, where a local schedule lets them: a bit for each, rank 0
/// the lowest; those from 63 on have the highest one in common.
enum class Referring : std::uint64_t {
  nobody = 0,
  rank_0 = 1,
  all_but_rank_0 = ~std::uint64_t{1},
  everybody = ~std::uint64_t{0},
};
/// "rank 0 by reference", "ranks 1 2 by reference"; of nobody nothing.
[[nodiscard]] std::string to_string(Referring referring);
[[nodiscard]] bool refers(Referring referring, Rank rank) noexcept;

/// One case: how many ranks, how much data, and on what.
struct CheckOptions {
  Rank ranks = 4;
  std::size_t count = 1000;  ///< elements of a vector, or of one block where buffers hold one for each rank
  Rank root = 0;
  std::vector<std::size_t> counts{};  ///< of each block, at most `count`, where the operator has them
  /// For each rank a number that those of its host have; empty: one host has all ranks.
  std::vector<Rank> host_of{};
  Rank hosts_per_switch = 0;                ///< 0: not known
  std::vector<std::uint32_t> bandwidths{};  ///< by host; empty: they are the same
  bool is_in_place = false;
  UserWindows user_windows = UserWindows::staged;  ///< others only within a node
  Referring referring = Referring::nobody;         ///< others only for local schedules that may
  // The rest of what a schedule may ask of its HostPlan:
  /// Where each has one, a root's message passes through in several pieces, as well as in one where it is
  /// small.
  CoreSupply cores = CoreSupply::one_each;
  bool goes_round = true;
  std::size_t stage_bytes = ~std::size_t{0};  ///< of each CCL buffer, at most
  std::uint64_t staged_calls = 0;             ///< of the first operation
  std::uint64_t staged_by_each = 1;           ///< of each that follows so many more
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::avg;  ///< avg covers sum, and that it is divided once and last
  std::size_t buffer_bytes = std::size_t{256} << 10;  ///< of each CCL buffer
  std::size_t piece_bytes = ~std::size_t{0};          ///< of a message, at most, as where caches are small
  /// In a row, on the same CCL buffers: at least 3 where data travels in slots, which alternate, but for 1.
  /// Where the first proves those that follow it, it is run alone.
  std::uint32_t operations = 2;
  bool runs_each_operation = false;  ///< all the same
  std::uint32_t untaken_posts = 1;   ///< of a signal, at most: 1 is a flag, more is a counter
  /// Links tell the signals of one operation from those of the next, as those of the library do. False: bare
  /// flags, which a signal of the next operation must not reach before the last one was taken.
  bool tags_signals = true;
  /// Messages of no bytes order, too, as over TCP: for what is unheard beside them. Each case with such is
  /// run once more like this.
  bool empty_messages_order = false;
  /// Where the operator lets ranks go ahead, those who meet with data wait for them alone whom their result
  /// depends on. False: for all.
  bool goes_ahead = true;
  bool is_eager = false;           ///< links that buffer whatever is sent; the default is the strictest
  bool checks_cost = true;         ///< as declared, and that no step writes what nobody needs
  bool explains_deadlocks = true;  ///< says whether links that buffer would help, which takes another run
  std::uint64_t seed =
      0;  ///< of the order in which streams run; 0: first in, first out. Results never depend on it.

  [[nodiscard]] Form form() const noexcept { return {count, ranks, root, counts}; }
  [[nodiscard]] HostPlan host_plan() const noexcept {
    return {.cores = cores,
            .windows = user_windows,
            .goes_round = goes_round,
            .stage_bytes = stage_bytes < buffer_bytes ? stage_bytes : buffer_bytes,
            .staged_calls = staged_calls};
  }
  [[nodiscard]] Hosts hosts() const {
    const Hosts hosts = (host_of.empty() ? Hosts(ranks) : Hosts(host_of)).below_switches(hosts_per_switch);
    return bandwidths.empty() ? hosts : hosts.with_bandwidths(bandwidths);
  }
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
  std::uint64_t messages = 0;      ///< sent over links by all ranks together
  std::uint64_t path_bytes = 0;    ///< that follow one another

  bool operator==(const Counted&) const = default;
};

/// What a check found.
struct Report {
  std::vector<Finding> findings;
  Counted counted;
  std::size_t tasks = 0;
  bool holds_in_a_row = false;  ///< the first operation alone proves that those behind it pass, if it does
  bool combines_in_rank_order = true;  ///< every result is ((0 + 1) + 2) + ...
  bool combines_at_once = true;        ///< every result in one step, averages as well
  bool had_empty_messages = false;
  std::string example_of_order;  ///< of one that is not in rank order
  std::uint64_t results = 0;     ///< the same number: the same results, combined in the same order

  [[nodiscard]] bool passed() const noexcept { return findings.empty(); }
  /// One line for each finding: "kind: words".
  [[nodiscard]] std::string text() const;
};

/// Runs the schedule of all ranks on symbolic memory and says what is wrong with it. On one host they meet
/// first, with slots that alternate, as on a communicator; a communicator of one runs what is written for it.
///
/// It proves, for this case: each result is exactly the contributions it should be, in one order on all
/// ranks; no two accesses to the same bytes can meet; no notify is lost or posted twice; nobody waits for
/// ever, in whatever order streams run and however little links buffer; slices lie inside their windows;
/// links and lanes are as in needs().
///
/// Costs grow with the number of tasks, not with counts. Throws InvalidArgument for options that make no
/// sense. `fault` is for tests of the checker itself.
[[nodiscard]] Report check(const AnyAlgorithm& algorithm, const CheckOptions& options,
                           const Fault* fault = nullptr);

}  // namespace cohort::check
