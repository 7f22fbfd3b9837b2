// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/compression/compressor.h>
#include <cohort/graph/executor/executor.h>
#include <cohort/graph/planner/cost.h>

#include <memory>
#include <string>

namespace cohort::graph {

/// Whether a bucket is compressed: only where that takes less than 0.9 of what it takes as it is.
struct CompressionDecision {
  double plain_us = 0;
  double compressed_us = 0;  ///< of the work on elements, and of moving fewer bytes
  bool pays = false;

  /// "refused: ..." with both numbers, or what it is predicted to bring.
  [[nodiscard]] std::string text() const;
};

inline constexpr double kLeastPay = 0.9;

/// `work_us_per_element`: of compressing and putting together again, as measure_work() gives it.
[[nodiscard]] CompressionDecision decide(const Compressor& compressor, const Cost& cost,
                                         std::uint64_t elements, Rank ranks, double work_us_per_element);

/// What a rank computes for an element, the slowest one's: a reduction in a group of this rank alone. A
/// collective; the same number on all ranks.
[[nodiscard]] Task<double> measure_work(Communicator& communicator, const CompressionOptions& options,
                                        std::size_t elements = std::size_t{1} << 20);

/// Reduces those buckets of an executor's graph in compressed form for which it pays: float32, of group
/// "world", added up or averaged. Lifetime: outlives the executor.
class BucketCompression {
 public:
  BucketCompression(const CompressionOptions& options, Cost cost, Rank ranks, double work_us_per_element);

  /// For the executor.
  [[nodiscard]] ExecutorOptions executor_options(ExecutorOptions options = {});
  [[nodiscard]] Compressor& compressor() noexcept { return *compressor_; }
  [[nodiscard]] CompressionDecision decide(const Node& node) const;

 private:
  std::unique_ptr<Compressor> compressor_;
  Cost cost_;
  Rank ranks_;
  double work_us_per_element_;
};

}  // namespace cohort::graph
