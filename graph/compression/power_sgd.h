// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/compression/compressor.h>

namespace cohort::graph {

/// A vector as a matrix M, nearly square: P = M Q, reduced and made orthogonal, Q = M' P, reduced; the result
/// is P Q'. Q is kept for the next step. Averages; sums are averages times the ranks.
class PowerSgdCompressor final : public Compressor {
 public:
  using Compressor::Compressor;

  [[nodiscard]] Task<> reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                              bool averages) override;
  [[nodiscard]] std::uint64_t equivalent_bytes(std::uint64_t elements, Rank ranks) const override;
};

}  // namespace cohort::graph
