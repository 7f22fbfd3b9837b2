// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/bench/placement.h>
#include <cohort/tools/bench/workload.h>

#include <functional>
#include <vector>

namespace cohort::bench {

/// One line of the report. Times are over iterations, of the slowest rank's duration in each.
struct Result {
  Point point;
  Shape shape;
  std::string algorithm;
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  std::size_t iterations = 0;
  std::uint64_t wrong = 0;          ///< elements, on all ranks together
  double round_trip_before_ns = 0;  ///< between two cores, if asked for
  double round_trip_after_ns = 0;
};

/// Sorts the samples, of which there is at least one, and puts the statistics into `result`.
void summarise(std::span<double> samples_us, Result& result);

/// The method, the same as in bench/peers: figures of other libraries and these compare. All ranks measure
/// the same points in the same order.
///
/// One iteration: a barrier of the communicator; new values in the input, unless they shall stay; the start
/// line; the operation, timed by each rank's own clock. Iterations run until the budget is used, at least
/// five (three, where those take four times the budget), at most kMostIterations.
///
/// Where ranks share processors more of them go before, until these have as many to carry each, or for a
/// while: after a pause of some ranks a scheduler leaves most of them on one processor.
///
/// Results are verified in an iteration before the timed ones, over destroyed old results, and in one more
/// after them, which differs from them in nothing.
///
/// Ranks of a job that others have started may be on several hosts: an all_reduce takes the place of the
/// start line, and another one brings the samples together.
class Measurement : Immovable {
 public:
  Measurement(Communicator& comm, const Options& options, Board& board, bool has_processors);

  /// The times are rank 0's to know; `wrong` everybody's.
  Task<Result> measure(Point point);

  /// Of steps that all ranks take together, in turn: the medians of the slowest rank's durations, the same on
  /// all ranks.
  Task<std::vector<double>> medians_of(const std::vector<std::function<Task<>()>>& steps);
  [[nodiscard]] Workload& workload() noexcept { return workload_; }

 private:
  struct Limits {
    std::size_t least = 0;
    std::size_t most = 0;
    std::chrono::nanoseconds budget{0};
    std::chrono::nanoseconds patience{0};  ///< how much longer, until processors have ranks alike to carry
  };

  [[nodiscard]] Limits warmup_limits() const;
  [[nodiscard]] Limits timed_limits() const;
  /// Rank 0 decides, at the start line, that this iteration is the last and does not count. How many there
  /// were before.
  Task<std::size_t> iterate(Limits limits, std::span<double> samples_us);
  /// The timed iterations, twice when the cores moved meanwhile. How many there were.
  Task<std::size_t> time(Result& result);
  /// The round trip between two cores, for which it may wait.
  Task<double> calibrate(Duration patience);
  /// One iteration whose result is checked. Wrong elements on this rank.
  Task<std::size_t> verify();
  /// All ranks meet outside the timed part.
  Task<> meet() { return meet(nullptr); }
  /// The same without memory that all map, by a collective: rank 0's answer becomes everybody's.
  Task<bool> agree(bool answer);
  /// What all know when they have met: wrong elements, and so many samples. Without memory that all map what
  /// concerns them all is this rank's: wrong elements together, of each sample the slowest rank's.
  Task<> publish(std::size_t samples);
  /// The same; `answer` is rank 0's to give and becomes everybody's.
  Task<> meet(bool* answer);
  /// Gives up when nobody will come to the start line any more.
  void check_peers(TimePoint deadline) const;
  [[nodiscard]] TimePoint line_deadline() const;
  [[nodiscard]] std::uint64_t total_wrong() const;
  /// The slowest rank's of each sample.
  [[nodiscard]] std::vector<double> slowest_of(std::size_t first, std::size_t count) const;

  Communicator& comm_;
  const Options& options_;
  Board& board_;
  Board::Slot& own_;
  StartLine line_;
  Placement placement_;
  Workload workload_;
  std::uint64_t sequence_ = 0;
  int impatience_ = 1;  ///< cores that were not near in vain are waited for half as long
};

}  // namespace cohort::bench
