// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <cohort/bench/peers/board.h>
#include <cohort/bench/peers/options.h>

namespace cohort::peers {

/// Float32 values, page aligned and faulted in once, so that no timed operation meets a page for the first
/// time.
class Buffer {
 public:
  explicit Buffer(std::size_t elements) : bytes_(std::max<std::size_t>(elements, 1) * sizeof(float)) {
    void* address =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (address == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "buffer");
    data_ = static_cast<float*>(address);
    std::fill_n(data_, bytes_ / sizeof(float), 1.0F);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { munmap(data_, bytes_); }

  float* data() const { return data_; }

 private:
  std::size_t bytes_;
  float* data_ = nullptr;
};

/// Test data repeats after a prime number of elements, so a chunk in a wrong place shows. Small whole
/// numbers: a sum over all ranks is exact in any order.
inline constexpr std::size_t kPeriod = 61;
using Pattern = std::array<float, kPeriod>;

inline Pattern input_of(int rank, std::uint64_t sequence) {
  Pattern pattern;
  const std::size_t phase = static_cast<std::size_t>(rank) * 13 + sequence % kPeriod * 5;
  for (std::size_t i = 0; i < kPeriod; ++i) pattern[i] = static_cast<float>((i * 7 + phase) % kPeriod);
  return pattern;
}

inline Pattern sum_of_inputs(int ranks, std::uint64_t sequence) {
  Pattern sum{};
  for (int rank = 0; rank < ranks; ++rank) {
    const Pattern pattern = input_of(rank, sequence);
    for (std::size_t i = 0; i < kPeriod; ++i) sum[i] += pattern[i];
  }
  return sum;
}

/// The pattern as seen from element `first` on.
inline Pattern shifted(const Pattern& pattern, std::size_t first) {
  Pattern result = pattern;
  std::rotate(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(first % kPeriod), result.end());
  return result;
}

inline void write_pattern(std::span<float> values, const Pattern& pattern) {
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kPeriod);
    std::memcpy(values.data(), pattern.data(), count * sizeof(float));
    values = values.subspan(count);
  }
}

inline bool holds_pattern(std::span<const float> values, const Pattern& pattern) {
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), kPeriod);
    if (std::memcmp(values.data(), pattern.data(), count * sizeof(float)) != 0) return false;
    values = values.subspan(count);
  }
  return true;
}

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
/// Its latency is the duration on the slowest rank. Iterations run until the budget is used, at least five,
/// at most kMaxIterations. Results are verified on every rank before the timed iterations and after them.
class Measurement {
 public:
  Measurement(const Options& options, Board& board, Peer peer)
      : options_(options),
        board_(board),
        peer_(std::move(peer)),
        line_(board, peer_.rank, peer_.ranks, peer_.waiting, peer_.progress) {}

  /// The result is meaningful on rank 0. Throws on all ranks if one got a wrong result.
  Result measure(const Point& point) {
    verify(point);
    iterate(point, {.least = 3, .most = 200, .budget_ns = budget_ns() / 6}, {});
    Result result;
    if (options_.calibrate) {
      result.round_trip_before_ns = line_.core_round_trip_ns();
      iterate(point, {.least = 2, .most = 20, .budget_ns = budget_ns() / 20}, {});
    }
    auto& samples = board_.slots[static_cast<std::size_t>(peer_.rank)].sample_us;
    result.iterations =
        iterate(point, {.least = 5, .most = kMaxIterations, .budget_ns = budget_ns()}, samples);
    if (peer_.rank == 0) summarise(result);
    if (options_.calibrate) result.round_trip_after_ns = line_.core_round_trip_ns();
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
    std::printf("%s,%s,%s,%d,%zu,%.2f,%.2f,%.2f,%zu", peer_.name, options_.transport.c_str(),
                name_of(point.collective), peer_.ranks, point.bytes, result.min_us, result.median_us,
                result.p99_us, result.iterations);
    if (options_.calibrate) {
      std::printf(",%.0f,%.0f", result.round_trip_before_ns, result.round_trip_after_ns);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  /// Returns when all ranks are here.
  void meet() { line_.cross(false); }

 private:
  struct Limits {
    std::size_t least;
    std::size_t most;
    std::int64_t budget_ns;
  };

  std::int64_t budget_ns() const { return std::chrono::nanoseconds(options_.budget).count(); }

  /// Rank 0 decides, at the start line, whether there is another iteration.
  std::size_t iterate(const Point& point, const Limits& limits, std::span<double> sample_us) {
    const std::int64_t begin = now_ns();
    for (std::size_t done = 0;; ++done) {
      peer_.barrier();
      if (options_.rewrite || done == 0) write_input(point);
      const bool enough = done >= limits.least && now_ns() - begin >= limits.budget_ns;
      if (line_.cross(enough || done == limits.most)) return done;
      if (options_.start == Start::barrier) peer_.barrier();
      const std::int64_t start = now_ns();
      point.operation();
      const std::int64_t end = now_ns();
      if (!sample_us.empty()) sample_us[done] = static_cast<double>(end - start) * 1e-3;
    }
  }

  void write_input(const Point& point) {
    ++sequence_;
    const bool contributes = point.collective != Collective::broadcast || peer_.rank == 0;
    if (contributes) write_pattern(point.in, input_of(peer_.rank, sequence_));
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
      throw std::runtime_error("wrong result of " + std::string(name_of(point.collective)) + " of " +
                               std::to_string(point.bytes) + " bytes on rank " + std::to_string(rank));
    }
    line_.cross(false);
  }

  bool expected_result(const Point& point) const {
    switch (point.collective) {
      case Collective::barrier: return true;
      case Collective::broadcast: return holds_pattern(point.out, input_of(0, sequence_));
      case Collective::all_reduce: return holds_pattern(point.out, sum_of_inputs(peer_.ranks, sequence_));
      case Collective::reduce_scatter: {
        const std::size_t first = static_cast<std::size_t>(peer_.rank) * point.out.size();
        return holds_pattern(point.out, shifted(sum_of_inputs(peer_.ranks, sequence_), first));
      }
      case Collective::all_gather: {
        const std::size_t share = point.in.size();
        for (int rank = 0; rank < peer_.ranks; ++rank) {
          const auto part = point.out.subspan(static_cast<std::size_t>(rank) * share, share);
          if (!holds_pattern(part, input_of(rank, sequence_))) return false;
        }
        return true;
      }
    }
    return false;
  }

  void summarise(Result& result) {
    std::vector<double> slowest(result.iterations, 0.0);
    for (int rank = 0; rank < peer_.ranks; ++rank) {
      const auto& samples = board_.slots[static_cast<std::size_t>(rank)].sample_us;
      for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], samples[i]);
    }
    std::sort(slowest.begin(), slowest.end());
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

/// Calls `measure_point(collective, bytes)` for every point asked for; a barrier has no sizes.
template <typename MeasurePoint>
void for_each_point(const Options& options, MeasurePoint measure_point) {
  for (const Collective collective : options.collectives) {
    if (collective == Collective::barrier) {
      measure_point(collective, std::size_t{0});
      continue;
    }
    for (const std::size_t bytes : options.sizes_bytes) measure_point(collective, bytes);
  }
}

}  // namespace cohort::peers
