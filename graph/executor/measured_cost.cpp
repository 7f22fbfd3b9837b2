// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/measured_cost.h>

#include <cohort/collectives/selection/explanation.h>
#include <cohort/graph/timeline/median.h>
#include <cohort/streams/stream.h>

#include <algorithm>
#include <utility>

namespace cohort::graph {
namespace {

/// So many all_reduces in a row, from when all ranks are there until they are over.
Task<double> time_of(Communicator& communicator, DataType type, std::span<std::byte> data, unsigned count) {
  Stream stream(communicator.engine(), "measure");
  co_await communicator.barrier();
  const TimePoint begin = communicator.engine().now();
  for (unsigned i = 0; i < count; ++i)
    stream.enqueue(communicator.all_reduce(type, data, data, ReduceOp::max));
  co_await stream.synchronize();
  co_return in_microseconds(communicator.engine().now() - begin);
}

std::vector<CostPoint> points_of(const std::vector<std::uint64_t>& sizes, std::span<const double> times) {
  std::vector<CostPoint> points;
  for (std::size_t i = 0; i < sizes.size(); ++i) points.push_back({.bytes = sizes[i], .us = times[i]});
  return points;
}

std::uint64_t whole_elements(std::uint64_t bytes, DataType type) {
  return std::max<std::uint64_t>(1, bytes / size_bytes(type)) * size_bytes(type);
}

}  // namespace

Task<LinearCost> measure_cost(Communicator& communicator, MeasureOptions options) {
  for (std::uint64_t& bytes : options.sizes_bytes) bytes = whole_elements(bytes, options.type);
  const std::size_t count = options.sizes_bytes.size();
  const SharedBuffer<std::byte> buffer =
      communicator.allocate<std::byte>(count == 0 ? 0 : std::ranges::max(options.sizes_bytes));
  std::ranges::fill(buffer.span(), std::byte{0});
  std::vector<double> times(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<std::byte> data = buffer.span().first(options.sizes_bytes[i]);
    std::vector<double> single;
    std::vector<double> queued;
    for (unsigned round = 0; round < options.repetitions; ++round) {
      const double one = co_await time_of(communicator, options.type, data, 1);
      const double two = co_await time_of(communicator, options.type, data, 2);
      single.push_back(one);
      queued.push_back(std::max(0.0, two - one));
    }
    times[i] = median(single);
    times[count + i] = std::min(median(queued), times[i]);
  }
  co_await communicator.all_reduce(std::span(times), ReduceOp::max);
  const std::span<const double> all(times);
  co_return fit(points_of(options.sizes_bytes, all.first(count)),
                points_of(options.sizes_bytes, all.subspan(count)));
}

Task<std::optional<Cost>> model_cost(Communicator& communicator, MeasureOptions options) {
  constexpr double kUnknown = 1e18;
  std::vector<double> times;
  for (std::uint64_t& bytes : options.sizes_bytes) {
    bytes = whole_elements(bytes, options.type);
    const Explanation explanation =
        communicator.explain(operator_of<AllReduce>, options.type, static_cast<std::size_t>(bytes));
    times.push_back(explanation.estimate_us.value_or(kUnknown));
  }
  co_await communicator.all_reduce(std::span(times), ReduceOp::max);
  if (times.empty() || std::ranges::max(times) >= kUnknown) co_return std::nullopt;
  co_return Cost::between(points_of(options.sizes_bytes, times));
}

}  // namespace cohort::graph
