// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/decision.h>

#include <cohort/graph/timeline/median.h>

#include <fmt/format.h>

#include <utility>

namespace cohort::graph {
namespace {

constexpr int kMeasurements = 5;

bool adds_up(const Node& node) {
  const std::string reduction = node.attribute_or<std::string>("reduction", "sum");
  return reduction == "sum" || reduction == "avg";
}

}  // namespace

std::string CompressionDecision::text() const {
  return fmt::format("{}: {:.1f} us compressed, {:.1f} us as it is", pays ? "compressed" : "refused",
                     compressed_us, plain_us);
}

CompressionDecision decide(const Compressor& compressor, const Cost& cost, std::uint64_t elements, Rank ranks,
                           double work_us_per_element) {
  CompressionDecision decision;
  decision.plain_us = cost.idle(elements * sizeof(float));
  decision.compressed_us = work_us_per_element * static_cast<double>(elements) +
                           cost.idle(compressor.equivalent_bytes(elements, ranks));
  decision.pays = decision.compressed_us < kLeastPay * decision.plain_us;
  return decision;
}

Task<double> measure_work(Communicator& communicator, const CompressionOptions& options,
                          std::size_t elements) {
  const auto own = static_cast<int>(communicator.rank());
  std::optional<Communicator> alone = co_await communicator.split(own);
  const std::unique_ptr<Compressor> compressor = Compressor::make(options);
  std::vector<float> data(elements);
  for (std::size_t i = 0; i < elements; ++i) data[i] = static_cast<float>(i % 1001) - 500;
  std::vector<double> times;
  for (int i = 0; i < kMeasurements; ++i) {
    const TimePoint begin = communicator.engine().now();
    co_await compressor->reduce(*alone, "measured", data, true);
    times.push_back(in_microseconds(communicator.engine().now() - begin));
  }
  const double mine = median(times) / static_cast<double>(elements);
  const double most = co_await communicator.all_reduce(mine, ReduceOp::max);
  co_return most;
}

BucketCompression::BucketCompression(const CompressionOptions& options, Cost cost, Rank ranks,
                                     double work_us_per_element)
    : compressor_(Compressor::make(options)),
      cost_(std::move(cost)),
      ranks_(ranks),
      work_us_per_element_(work_us_per_element) {}

CompressionDecision BucketCompression::decide(const Node& node) const {
  const auto bytes = static_cast<std::uint64_t>(node.attribute_or<std::int64_t>("bytes", 0));
  return graph::decide(*compressor_, cost_, bytes / sizeof(float), ranks_, work_us_per_element_);
}

ExecutorOptions BucketCompression::executor_options(ExecutorOptions options) {
  options.reduces = [this](const Node& node, DataType type) {
    return type == DataType::float32 && node.op == "all_reduce" && adds_up(node) && decide(node).pays;
  };
  options.reduction = [this](const BucketCall& call) {
    const std::span<float> data(reinterpret_cast<float*>(call.data.data()), call.data.size() / sizeof(float));
    const bool averages = call.node.attribute_or<std::string>("reduction", "sum") == "avg";
    return compressor_->reduce(call.communicator, call.gradients, data, averages);
  };
  return options;
}

}  // namespace cohort::graph
