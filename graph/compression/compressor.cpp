// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/compressor.h>

#include <cohort/graph/compression/cast.h>
#include <cohort/graph/compression/power_sgd.h>
#include <cohort/graph/compression/top_k.h>
#include <cohort/graph/compression/two_shot.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace cohort::graph {
namespace {

constexpr std::array<std::string_view, 5> kCompressionNames = {"fp16", "bf16", "int8", "top_k", "power_sgd"};
constexpr float kMostInt8 = 127;
/// What is added to it loses its fraction, to nearest, ties to even, and stands in the lowest bits: 3 * 2^22.
constexpr float kRounder = 12582912;

}  // namespace

std::string_view to_string(CompressionKind kind) noexcept {
  return kCompressionNames[static_cast<std::size_t>(kind)];
}
std::optional<CompressionKind> parse_compression(std::string_view name) noexcept {
  const auto found = std::ranges::find(kCompressionNames, name);
  if (found == kCompressionNames.end()) return std::nullopt;
  return static_cast<CompressionKind>(found - kCompressionNames.begin());
}

std::unique_ptr<Compressor> Compressor::make(const CompressionOptions& options) {
  switch (options.kind) {
    case CompressionKind::fp16:
    case CompressionKind::bf16: return std::make_unique<CastCompressor>(options);
    case CompressionKind::int8: return std::make_unique<TwoShotCompressor>(options);
    case CompressionKind::top_k: return std::make_unique<TopKCompressor>(options);
    case CompressionKind::power_sgd: return std::make_unique<PowerSgdCompressor>(options);
  }
  return nullptr;
}

std::vector<float>& Compressor::kept(const std::string& name, std::size_t size) {
  std::vector<float>& values = state_[name];
  if (values.size() != size) values.assign(size, 0.0F);
  return values;
}

std::span<float> Compressor::with_residual(const std::string& name, std::span<float> data) {
  if (!options_.has_error_feedback) return {};
  std::vector<float>& residual = kept(name + ".residual", data.size());
  for (std::size_t i = 0; i < data.size(); ++i) data[i] += residual[i];
  return residual;
}

Quantised quantise(std::span<const float> values) {
  Quantised result;
  result.numbers.resize(values.size());
  std::int8_t* const numbers =
      result.numbers.data();  // which no store through it changes: loops become vectors
  result.scales.reserve((values.size() + kQuantisedBlock - 1) / kQuantisedBlock);
  for (std::size_t begin = 0; begin < values.size(); begin += kQuantisedBlock) {
    const std::size_t end = std::min(values.size(), begin + kQuantisedBlock);
    std::int32_t most = 0;
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, magnitude_bits(values[i]));
    const bool is_finite = most < kInfinityBits;
    const float scale =
        is_finite ? std::bit_cast<float>(most) / kMostInt8 : std::numeric_limits<float>::quiet_NaN();
    result.scales.push_back(scale);
    if (!is_finite) continue;
    const float inverse = scale > 0 ? finite_or_zero(1 / scale) : 0;
    for (std::size_t i = begin; i < end; ++i) {
      const float rounded = std::clamp(values[i] * inverse, -kMostInt8, kMostInt8) + kRounder;
      numbers[i] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(rounded) -
                                            std::bit_cast<std::int32_t>(kRounder));
    }
  }
  return result;
}

void add_dequantised(std::span<const std::int8_t> numbers, std::span<const float> scales,
                     std::span<float> to) {
  for (std::size_t begin = 0; begin < numbers.size(); begin += kQuantisedBlock) {
    const float scale = scales[begin / kQuantisedBlock];
    const std::size_t end = std::min(numbers.size(), begin + kQuantisedBlock);
    for (std::size_t i = begin; i < end; ++i) to[i] += scale * static_cast<float>(numbers[i]);
  }
}

}  // namespace cohort::graph
