// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/compression/compressor.h>

namespace cohort::graph {

/// Sends the values of largest magnitude with their places; ranks add up what all have sent. Between equal
/// values the first ones count.
class TopKCompressor final : public Compressor {
 public:
  using Compressor::Compressor;

  [[nodiscard]] Task<> reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                              bool averages) override;
  [[nodiscard]] std::uint64_t equivalent_bytes(std::uint64_t elements, Rank ranks) const override;
};

}  // namespace cohort::graph
