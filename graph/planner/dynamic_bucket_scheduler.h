// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/planner/plan.h>

#include <cstdint>
#include <optional>

namespace cohort::graph {

/// Adjusts the size of buckets while a job runs, by the throughput of its reductions.
///
/// Rule `seed` is the one of graph engines: half below 0.8 of the target, double otherwise. It has no dead
/// band, so that at a constant throughput it ends at its bounds or goes to and fro. Rule `steady`, the
/// default, changes a size only after `patience` observations on one side of the band, keeps the change only
/// if throughput gained by it, and then rests until throughput changes. Around a planner's optimum it tries
/// half and double of it, no others.
class DynamicBucketScheduler {
 public:
  enum class Rule : std::uint8_t { seed, steady };

  struct Settings {
    Rule rule = Rule::steady;
    double target_throughput = 0;  ///< in the unit of what is observed
    std::uint64_t bucket_mebibytes = 25;
    std::uint64_t least_mebibytes = 1;
    std::uint64_t most_mebibytes = 256;
    unsigned patience = 3;
    double band_low = 0.8;   ///< of the target: below it, buckets are halved
    double band_high = 1.0;  ///< at it and above, they are doubled
    double least_gain = 1.02;
    double change = 0.2;  ///< of throughput, that ends a rest
  };

  /// Throws InvalidArgument for a target that is not above zero, or bounds that hold no size.
  explicit DynamicBucketScheduler(const Settings& settings);

  /// One observation; the size from now on, in mebibytes.
  std::uint64_t adjust_bucket_size(double current_throughput);
  [[nodiscard]] std::uint64_t bucket_mebibytes() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t bucket_bytes() const noexcept { return size_ << 20U; }

  /// Begins anew from the planner's optimum: its largest bucket.
  void follow(const Plan& plan);

 private:
  void adjust_by_seed(double throughput);
  void adjust_steadily(double throughput);
  void judge_trial(double mean);
  void begin_trial(double mean);
  [[nodiscard]] std::uint64_t bounded(std::uint64_t size) const noexcept;

  struct Trial {
    std::uint64_t size_before = 0;
    double throughput_before = 0;
  };

  Settings settings_;
  std::uint64_t size_;
  std::optional<std::uint64_t> optimum_;
  unsigned observations_ = 0;  ///< since the size changed, or a side of the band
  double sum_ = 0;
  int side_ = 0;  ///< of the band: -1 below, 1 above
  std::optional<Trial> trial_;
  std::optional<double> resting_at_;
};

}  // namespace cohort::graph
