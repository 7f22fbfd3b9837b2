// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/compression/compressor.h>

namespace cohort::graph {

/// Every rank sends each other one its share in int8, adds up in float32 what it got, and sends the sum in
/// int8. Two roundings, however many ranks there are: the error of an element is at most half a scale of each
/// rank, and half of the sum's. The owner of a share keeps the second rounding in its residual.
class TwoShotCompressor final : public Compressor {
 public:
  using Compressor::Compressor;

  [[nodiscard]] Task<> reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                              bool averages) override;
  [[nodiscard]] std::uint64_t equivalent_bytes(std::uint64_t elements, Rank ranks) const override;
};

}  // namespace cohort::graph
