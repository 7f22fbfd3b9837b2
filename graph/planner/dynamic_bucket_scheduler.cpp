// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/planner/dynamic_bucket_scheduler.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::graph {

DynamicBucketScheduler::DynamicBucketScheduler(const Settings& settings)
    : settings_(settings), size_(settings.bucket_mebibytes) {
  const bool has_bounds =
      settings.least_mebibytes >= 1 && settings.least_mebibytes <= settings.most_mebibytes;
  if (!(settings.target_throughput > 0) || !has_bounds || settings.patience == 0)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("buckets of {} to {} MiB for a target of {}, after {} observations; give a target "
                    "above 0, bounds from 1 up, and at least one observation",
                    settings.least_mebibytes, settings.most_mebibytes, settings.target_throughput,
                    settings.patience));
  size_ = bounded(size_);
}

std::uint64_t DynamicBucketScheduler::bounded(std::uint64_t size) const noexcept {
  std::uint64_t least = settings_.least_mebibytes;
  std::uint64_t most = settings_.most_mebibytes;
  if (optimum_) {
    least = std::clamp(*optimum_ / 2, least, most);
    most = std::clamp(*optimum_ * 2, least, most);
  }
  return std::clamp(size, least, most);
}

std::uint64_t DynamicBucketScheduler::adjust_bucket_size(double current_throughput) {
  if (settings_.rule == Rule::seed)
    adjust_by_seed(current_throughput);
  else
    adjust_steadily(current_throughput);
  return size_;
}

void DynamicBucketScheduler::adjust_by_seed(double throughput) {
  const bool is_congested = throughput < settings_.target_throughput * settings_.band_low;
  size_ = is_congested ? std::max(settings_.least_mebibytes, size_ / 2)
                       : std::min(settings_.most_mebibytes, size_ * 2);
}

void DynamicBucketScheduler::adjust_steadily(double throughput) {
  if (resting_at_) {
    if (std::abs(throughput - *resting_at_) <= settings_.change * *resting_at_) return;
    resting_at_.reset();
  }
  const double target = settings_.target_throughput;
  const int side = throughput < target * settings_.band_low     ? -1
                   : throughput >= target * settings_.band_high ? 1
                                                                : 0;
  if (!trial_ && side != side_) {
    side_ = side;
    observations_ = 0;
    sum_ = 0;
  }
  sum_ += throughput;
  if (++observations_ < settings_.patience) return;
  const double mean = sum_ / observations_;
  observations_ = 0;
  sum_ = 0;
  if (trial_)
    judge_trial(mean);
  else if (side_ != 0)
    begin_trial(mean);
}

void DynamicBucketScheduler::begin_trial(double mean) {
  const std::uint64_t wanted = bounded(side_ < 0 ? size_ / 2 : size_ * 2);
  if (wanted == size_) {
    resting_at_ = mean;
    return;
  }
  trial_ = Trial{.size_before = size_, .throughput_before = mean};
  size_ = wanted;
}

void DynamicBucketScheduler::judge_trial(double mean) {
  const Trial trial = *trial_;
  trial_.reset();
  side_ = 0;
  if (mean >= trial.throughput_before * settings_.least_gain) return;
  size_ = trial.size_before;
  resting_at_ = trial.throughput_before;
}

void DynamicBucketScheduler::follow(const Plan& plan) {
  std::uint64_t largest = 0;
  for (const Bucket& bucket : plan.buckets) largest = std::max(largest, bucket.bytes);
  constexpr std::uint64_t kUnit = std::uint64_t{1} << 20;
  optimum_ = std::max<std::uint64_t>(1, (largest + kUnit - 1) / kUnit);
  size_ = bounded(*optimum_);
  trial_.reset();
  resting_at_.reset();
  observations_ = 0;
  sum_ = 0;
  side_ = 0;
}

}  // namespace cohort::graph
