// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <cohort/bench/peers/board.h>

namespace cohort::limits {

using peers::Board;
using peers::now_ns;
using peers::StartLine;

/// Two processes, each bound to a core of its own, that measure the same things in the same order.
class Bench {
 public:
  Bench(Board& board, int side)
      : board_(board), side_(side), line_(board, side, 2, peers::Waiting::awake, {}) {}

  int side() const { return side_; }
  Board& board() { return board_; }
  void meet() { line_.cross(false); }

  /// One row: how long `step` takes, where both sides run it together, in us. `prepare` runs before each, not
  /// timed. A step takes as long as it does on the slower side.
  template <typename Prepare, typename Step>
  void measure(const std::string& name, std::size_t bytes, Prepare prepare, Step step) {
    report(name, bytes, best_median({[&] { return sample(prepare, step); }}));
  }

  struct Row {
    double median_us = 0;
    double min_us = 0;
    double before_ns = 0;
    double after_ns = 0;
  };

  /// The row of the way with the lowest median.
  Row best_median(const std::vector<std::function<Row()>>& ways) {
    Row best;
    for (const auto& way : ways) {
      const Row row = way();
      if (best.median_us == 0 || row.median_us < best.median_us) best = row;
    }
    return best;
  }

  template <typename Prepare, typename Step>
  Row sample(Prepare prepare, Step step) {
    constexpr std::int64_t kBudgetNs = 25'000'000;
    constexpr std::size_t kLeast = 5;
    constexpr std::size_t kMost = 400;
    constexpr std::size_t kWarmup = 2;
    Row row;
    row.before_ns = wait_for_near();
    auto& samples = board_.slots[static_cast<std::size_t>(side_)].sample_us;
    const std::int64_t begin = now_ns();
    std::size_t done = 0;
    for (;; ++done) {
      prepare();
      const bool enough = done >= kLeast + kWarmup && now_ns() - begin >= kBudgetNs;
      if (line_.cross(enough || done == kMost)) break;
      const std::int64_t start = now_ns();
      step();
      samples[done] = static_cast<double>(now_ns() - start) * 1e-3;
    }
    row.after_ns = line_.core_round_trip_ns();
    if (side_ == 0) summarise(kWarmup, done, row);
    // Both sides have to choose the same best way.
    if (side_ == 0) board_.round_trip_ns = row.median_us;
    meet();
    row.median_us = board_.round_trip_ns;
    meet();
    return row;
  }

  void report(const std::string& name, std::size_t bytes, const Row& row) const {
    if (side_ != 0) return;
    std::printf("%s,%zu,%.4f,%.4f,%.0f,%.0f\n", name.c_str(), bytes, row.median_us, row.min_us, row.before_ns,
                row.after_ns);
    std::fflush(stdout);
  }

  double wait_for_near() { return line_.wait_for_near(patience_ns); }

  std::int64_t patience_ns = 0;

 private:
  void summarise(std::size_t first, std::size_t last, Row& row) const {
    std::vector<double> slower;
    for (std::size_t i = first; i < last; ++i) {
      slower.push_back(std::max(board_.slots[0].sample_us[i], board_.slots[1].sample_us[i]));
    }
    std::sort(slower.begin(), slower.end());
    row.min_us = slower.front();
    row.median_us = slower[slower.size() / 2];
  }

  Board& board_;
  const int side_;
  StartLine line_;
};

}  // namespace cohort::limits
