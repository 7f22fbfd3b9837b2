// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/compression/compressor.h>

namespace cohort::graph {

/// Casts to a type of 16 bits, which the library reduces. Moves half of the bytes.
class CastCompressor final : public Compressor {
 public:
  using Compressor::Compressor;

  [[nodiscard]] Task<> reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                              bool averages) override;
  [[nodiscard]] std::uint64_t equivalent_bytes(std::uint64_t elements, Rank ranks) const override;
};

}  // namespace cohort::graph
