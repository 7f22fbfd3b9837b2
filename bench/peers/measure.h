// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cohort/bench/peers/board.h>
#include <cohort/bench/peers/data.h>
#include <cohort/bench/peers/options.h>

namespace cohort::peers {

/// One operation to measure. `in` is what the rank contributes, `out` where the result lies: the same memory
/// where a library works in place. `operation` returns when this rank's result is there and its input may be
/// written again.
struct Point {
  Collective collective;
  std::size_t bytes;
  std::span<float> in;
  std::span<float> out;
  std::function<void()> operation;
};

/// Over iterations, of the slowest rank's duration in each.
struct Result {
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  std::size_t iterations = 0;
  double round_trip_before_ns = 0;
  double round_trip_after_ns = 0;
  std::int64_t wall_ns = 0;  ///< of the timed part
};

/// A point that has no figure, for a reason that all ranks know: the points after it have one.
class NotMeasured : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The library under test, as the method needs it.
struct Peer {
  const char* name;
  int rank;
  int ranks;
  Waiting waiting;
  std::function<void()> barrier;   ///< the library's own
  std::function<void()> progress;  ///< lets the library move bytes; may be empty
};

/// The method, the same for every library. All ranks call measure() with the same points in the same order.
///
/// One iteration: the library's barrier (the previous operation has ended everywhere, and the library has
/// moved its last bytes), new values in the input (unless --no-rewrite), the start line, the timed operation.
/// Its latency is the duration on the slowest rank.
///
/// Iterations run until the budget is used, at least five (three, where those take four times the budget), at
/// most kMaxIterations. Results are verified on every rank before the timed iterations and after them.
///
/// The round trip between two cores is measured around the timed iterations; they run once more if the cores
/// moved meanwhile. Where ranks share processors, more iterations go before the timed ones, until these have
/// as many to carry each, or for a while.
class Measurement {
 public:
  Measurement(const Options& options, Board& board, Peer peer)
      : options_(options),
        board_(board),
        peer_(std::move(peer)),
        line_(board, peer_.rank, peer_.ranks, peer_.waiting, peer_.progress) {}

  /// The result is meaningful on rank 0. Throws NotMeasured on all ranks if one got a wrong result.
  Result measure(const Point& point) {
    alarm(options_.timeout_s);
    verify(point);
    iterate(point, {.least = 1, .most = 200, .budget_ns = budget_ns() / 6, .patience_ns = kSpreadPatienceNs},
            {});
    Result result = time(point);
    const bool was_moved =
        placement_of(result.round_trip_before_ns) != placement_of(result.round_trip_after_ns);
    if (was_moved && result.wall_ns <= 2 * budget_ns()) result = time(point);
    if (options_.rewrite) verify(point);
    return result;
  }

  /// Of several ways in which the library can do the same, the one with the lowest median.
  Result measure_best(std::span<const Point> points) {
    Result best = measure(points.front());
    for (const Point& point : points.subspan(1)) {
      const Result result = measure(point);
      if (result.median_us < best.median_us) best = result;
    }
    return best;
  }

  void print(const Point& point, const Result& result) const {
    if (peer_.rank != 0) return;
    print_point(point.collective, point.bytes);
    std::printf("%.3f,%.3f,%.3f,%zu,%.0f,%.0f\n", result.min_us, result.median_us, result.p99_us,
                result.iterations, result.round_trip_before_ns, result.round_trip_after_ns);
    std::fflush(stdout);
  }

  void print_missing(Collective collective, std::size_t bytes, const char* reason) const {
    if (peer_.rank != 0) return;
    print_point(collective, bytes);
    std::printf("-,%s\n", reason);
    std::fflush(stdout);
  }

  /// Returns when all ranks are here.
  void meet() { line_.cross(false); }

  /// Of steps that all ranks take together, in turn: the medians of the slowest rank's durations, the same on
  /// all ranks.
  std::vector<double> medians_of(const std::vector<std::function<void()>>& steps) {
    constexpr std::size_t kWarmup = 1;
    constexpr std::size_t kTurns = 7;
    std::vector<double> medians;
    auto& samples = board_.slots[static_cast<std::size_t>(peer_.rank)].sample_us;
    for (std::size_t turn = 0; turn < kWarmup + kTurns; ++turn) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        peer_.barrier();
        line_.cross(false);
        const std::int64_t start = now_ns();
        steps[i]();
        const std::int64_t end = now_ns();
        if (turn >= kWarmup) samples[i * kTurns + turn - kWarmup] = static_cast<double>(end - start) * 1e-3;
      }
    }
    line_.cross(false);
    for (std::size_t i = 0; i < steps.size(); ++i) medians.push_back(median_of_slowest(i * kTurns, kTurns));
    line_.cross(false);
    return medians;
  }

  const Peer& peer() const { return peer_; }

 private:
  static constexpr std::size_t kFewIterations = 3;
  static constexpr std::int64_t kSpreadPatienceNs = 200'000'000;

  struct Limits {
    std::size_t least;
    std::size_t most;
    std::int64_t budget_ns;
    std::int64_t patience_ns = 0;  ///< how much longer, until processors have ranks alike to carry
  };

  void print_point(Collective collective, std::size_t bytes) const {
    std::printf("%s,%s,%s,%d,%zu,", peer_.name, options_.transport.c_str(), name_of(collective), peer_.ranks,
                bytes);
  }

  Result time(const Point& point) {
    Result result;
    const std::int64_t patience_ns = std::chrono::nanoseconds(options_.near_wait).count();
    result.round_trip_before_ns = line_.wait_for_near(patience_ns);
    iterate(point, {.least = 0, .most = 20, .budget_ns = budget_ns() / 20, .patience_ns = kSpreadPatienceNs},
            {});
    auto& samples = board_.slots[static_cast<std::size_t>(peer_.rank)].sample_us;
    const std::int64_t begin = now_ns();
    result.iterations =
        iterate(point, {.least = 5, .most = kMaxIterations, .budget_ns = budget_ns()}, samples);
    result.wall_ns = now_ns() - begin;
    if (peer_.rank == 0) summarise(result);
    result.round_trip_after_ns = line_.core_round_trip_ns();
    // Whether there is a second time is for all to know alike.
    if (peer_.rank == 0) board_.wall_ns = result.wall_ns;
    line_.cross(false);
    result.wall_ns = board_.wall_ns;
    return result;
  }

  std::int64_t budget_ns() const { return std::chrono::nanoseconds(options_.budget).count(); }

  /// Rank 0 decides, at the start line, whether there is another iteration.
  std::size_t iterate(const Point& point, const Limits& limits, std::span<double> sample_us) {
    const std::int64_t begin = now_ns();
    for (std::size_t done = 0;; ++done) {
      peer_.barrier();
      if (options_.rewrite || done == 0) write_input(point);
      const std::int64_t taken_ns = now_ns() - begin;
      const bool enough = (done >= limits.least && taken_ns >= limits.budget_ns) ||
                          (done >= kFewIterations && taken_ns >= 4 * limits.budget_ns);
      const bool is_uneven = taken_ns < limits.patience_ns && !line_.is_spread();
      if (line_.cross(!is_uneven && (enough || done >= limits.most))) return done;
      if (options_.start == Start::barrier) peer_.barrier();
      const std::int64_t start = options_.start == Start::barrier ? now_ns() : line_.start_ns();
      point.operation();
      const std::int64_t end = now_ns();
      if (!sample_us.empty()) sample_us[done] = static_cast<double>(end - start) * 1e-3;
    }
  }

  void write_input(const Point& point) {
    ++sequence_;
    const bool is_from_root =
        point.collective == Collective::broadcast || point.collective == Collective::send_recv;
    if (!is_from_root || peer_.rank == 0) write_pattern(point.in, input_of(peer_.rank, sequence_));
  }

  void verify(const Point& point) {
    std::fill(point.out.begin(), point.out.end(), -1.0F);
    line_.cross(false);
    peer_.barrier();
    write_input(point);
    line_.cross(false);
    point.operation();
    board_.slots[static_cast<std::size_t>(peer_.rank)].wrong = !expected_result(point);
    peer_.barrier();
    line_.cross(false);
    for (int rank = 0; rank < peer_.ranks; ++rank) {
      if (!board_.slots[static_cast<std::size_t>(rank)].wrong) continue;
      throw NotMeasured("wrong result on rank " + std::to_string(rank));
    }
    line_.cross(false);
  }

  bool expected_result(const Point& point) const {
    switch (point.collective) {
      case Collective::barrier: return true;
      case Collective::send_recv:
        if (peer_.rank > 1) return true;
        [[fallthrough]];
      case Collective::broadcast: return holds_pattern(point.out, input_of(0, sequence_));
      case Collective::reduce:
        if (peer_.rank > 0) return true;
        [[fallthrough]];
      case Collective::all_reduce: return holds_pattern(point.out, sum_of_inputs(peer_.ranks, sequence_));
      case Collective::scan: return holds_pattern(point.out, sum_of_inputs(peer_.rank + 1, sequence_));
      case Collective::exclusive_scan:
        return peer_.rank == 0 || holds_pattern(point.out, sum_of_inputs(peer_.rank, sequence_));
      case Collective::scatter:
      case Collective::scatter_v: {
        const std::size_t first = static_cast<std::size_t>(peer_.rank) * point.out.size();
        return holds_pattern(point.out, shifted(input_of(0, sequence_), first));
      }
      case Collective::reduce_scatter:
      case Collective::reduce_scatter_v: {
        const std::size_t first = static_cast<std::size_t>(peer_.rank) * point.out.size();
        return holds_pattern(point.out, shifted(sum_of_inputs(peer_.ranks, sequence_), first));
      }
      case Collective::gather:
      case Collective::gather_v:
        if (peer_.rank > 0) return true;
        [[fallthrough]];
      case Collective::all_gather:
      case Collective::all_gather_v: {
        const std::size_t share = point.in.size();
        for (int rank = 0; rank < peer_.ranks; ++rank) {
          const auto part = point.out.subspan(static_cast<std::size_t>(rank) * share, share);
          if (!holds_pattern(part, input_of(rank, sequence_))) return false;
        }
        return true;
      }
      case Collective::all_to_all:
      case Collective::all_to_all_vc: {
        const std::size_t share = point.in.size() / static_cast<std::size_t>(peer_.ranks);
        const std::size_t own = static_cast<std::size_t>(peer_.rank) * share;
        for (int rank = 0; rank < peer_.ranks; ++rank) {
          const auto part = point.out.subspan(static_cast<std::size_t>(rank) * share, share);
          if (!holds_pattern(part, shifted(input_of(rank, sequence_), own))) return false;
        }
        return true;
      }
    }
    return false;
  }

  /// Ascending: the slowest rank's of each sample.
  std::vector<double> slowest_of(std::size_t first, std::size_t count) const {
    std::vector<double> slowest(count, 0.0);
    for (int rank = 0; rank < peer_.ranks; ++rank) {
      const auto& samples = board_.slots[static_cast<std::size_t>(rank)].sample_us;
      for (std::size_t i = 0; i < count; ++i) slowest[i] = std::max(slowest[i], samples[first + i]);
    }
    std::sort(slowest.begin(), slowest.end());
    return slowest;
  }

  double median_of_slowest(std::size_t first, std::size_t count) const {
    return slowest_of(first, count)[count / 2];
  }

  void summarise(Result& result) const {
    const std::vector<double> slowest = slowest_of(0, result.iterations);
    result.min_us = slowest.front();
    result.median_us = slowest[slowest.size() / 2];
    result.p99_us = slowest[std::min(slowest.size() - 1, slowest.size() * 99 / 100)];
  }

  const Options& options_;
  Board& board_;
  const Peer peer_;
  StartLine line_;
  std::uint64_t sequence_ = 0;
};

/// Buffers for the largest of the points asked for: one of input, one of output.
inline std::size_t largest_elements(const Options& options, int ranks) {
  std::size_t largest = 1;
  for (const Collective collective : options.collectives) {
    for (const std::size_t bytes : options.sizes_bytes) {
      const Shape shape = shape_of(collective, bytes, ranks);
      largest = std::max({largest, shape.in, shape.out});
    }
  }
  return largest;
}

/// Calls `measure_point(collective, bytes)` for every point asked for; a barrier has no sizes. What it throws
/// as NotMeasured is printed, and the next point follows.
template <typename MeasurePoint>
void for_each_point(const Options& options, const Measurement& measurement, MeasurePoint measure_point) {
  const auto measure = [&](Collective collective, std::size_t bytes) {
    try {
      measure_point(collective, bytes);
    } catch (const NotMeasured& reason) {
      measurement.print_missing(collective, bytes, reason.what());
    }
  };
  for (const Collective collective : options.collectives) {
    if (collective == Collective::barrier) {
      measure(collective, std::size_t{0});
      continue;
    }
    for (const std::size_t bytes : options.sizes_bytes) measure(collective, bytes);
  }
}

}  // namespace cohort::peers
