// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/calibration/joint_measurement.h>

#include <cohort/collectives/calibration/spread.h>
#include <cohort/collectives/schedules/operators/barrier.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr int kBatchesOfCalls = 3;

}  // namespace

Task<double> JointMeasurement::time(const Call& call) {
  std::vector<Duration> batches(kBatchesOfCalls);
  for (Duration& batch : batches) batch = co_await run_batch(call, kCallsPerBatch);
  co_return best_of(batches);
}

Task<bool> JointMeasurement::has_time() {
  if (is_time_over_) co_return false;
  double is_late = engine_.now() < until_ ? 0 : 1;
  co_await agree_on_slowest(std::span(&is_late, 1));
  is_time_over_ = is_late != 0;
  co_return is_late == 0;
}

Task<std::optional<std::array<double, 2>>> JointMeasurement::time_both(Way way, Rewrite rewrite,
                                                                       int calls_per_batch) {
  std::array<std::vector<Duration>, 2> batches;
  for (int batch = 0; batch < kBatchesOfCalls; ++batch) {
    for (std::size_t which = 0; which < batches.size(); ++which) {
      const Call call = way(which);
      const std::optional<Duration> took =
          co_await run_batch_while_there_is_time(call, rewrite, calls_per_batch);
      if (!took) co_return std::nullopt;
      batches[which].push_back(*took);
    }
  }
  const std::array<double, 2> typical = {median_of(batches[0]), median_of(batches[1])};
  co_return typical;
}

Task<Duration> JointMeasurement::run_batch(const Call& call, int calls) const {
  engine_.platform().keep_core();
  const TimePoint start = engine_.now();
  for (int i = 0; i < calls; ++i) co_await run_(call);
  co_return (engine_.now() - start) / calls;
}

Task<std::optional<Duration>> JointMeasurement::run_batch_while_there_is_time(const Call& call,
                                                                              const Rewrite& rewrite,
                                                                              int calls) {
  const bool anew = rewrite != nullptr;
  const int parts = anew ? calls : 1;
  const int calls_of_part = calls / parts;
  Duration took{};
  for (int part = 0; part < parts; ++part) {
    if (anew) rewrite();
    const bool goes_on = co_await has_time();
    if (!goes_on) co_return std::nullopt;
    const Duration of_part = co_await run_batch(call, calls_of_part);
    took += of_part;
  }
  co_return took / parts;
}

double JointMeasurement::best_of(const std::vector<Duration>& batches) noexcept {
  spread = std::max(spread, spread_of(batches));
  return in_microseconds(*std::ranges::min_element(batches));
}

double JointMeasurement::median_of(std::vector<Duration> batches) noexcept {
  spread = std::max(spread, spread_of(batches));
  const auto middle = batches.begin() + static_cast<std::ptrdiff_t>(batches.size() / 2);
  std::ranges::nth_element(batches, middle);
  return in_microseconds(*middle);
}

Task<double> JointMeasurement::time_once(const Call& call) const {
  const TimePoint start = engine_.now();
  co_await run_(call);
  co_return in_microseconds(engine_.now() - start);
}

Task<> JointMeasurement::meet() const {
  const Call call = agreed_call(operator_of<Barrier>, DataType::byte, {}, {});
  co_await run_(call);
}

Call JointMeasurement::agreed_call(Operator op, DataType type, std::span<const std::byte> in,
                                   std::span<std::byte> out) const {
  CallArguments arguments{.type = type};
  arguments.reduce = ReduceOp::max;
  arguments.in = in;
  arguments.out = out;
  Call call = make_call(op, arguments, membership_.rank, membership_.size);
  call.algorithm = choose_(call);
  return call;
}

Task<> JointMeasurement::agree_on_slowest(std::span<double> values) const {
  const Call call = agreed_call(operator_of<AllReduce>, DataType::float64, std::as_bytes(values),
                                std::as_writable_bytes(values));
  co_await run_(call);
}

}  // namespace cohort
