// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::graph {

enum class CompressionKind : std::uint8_t {
  fp16,       ///< cast, reduced in that type
  bf16,       ///< cast, reduced in that type
  int8,       ///< blocks with a scale each, in two shots, added in float32
  top_k,      ///< the largest values, with their places
  power_sgd,  ///< two factors of low rank
};

[[nodiscard]] std::string_view to_string(CompressionKind kind) noexcept;
[[nodiscard]] std::optional<CompressionKind> parse_compression(std::string_view name) noexcept;

struct CompressionOptions {
  CompressionKind kind = CompressionKind::int8;
  bool has_error_feedback = true;  ///< what was not sent is added to the next step's gradients
  double top_ratio = 0.01;         ///< of values that top_k sends
  double momentum = 0;  ///< of top_k: above 0 with the momentum correction of DGC (Lin et al. 2018)
  unsigned rank = 2;    ///< of power_sgd (Vogels et al. 2019)
};

/// Elements of a block that have one scale.
inline constexpr std::size_t kQuantisedBlock = 256;

/// Averages or adds up vectors of all ranks in compressed form. What a rank did not send of its own, the
/// residual, is kept by the vector's name and sent with the next one.
///
/// Work on elements runs on the compute pool. Threads: one engine. Lifetime: outlives reduce().
class Compressor {
 public:
  explicit Compressor(const CompressionOptions& options) : options_(options) {}
  virtual ~Compressor() = default;
  [[nodiscard]] static std::unique_ptr<Compressor> make(const CompressionOptions& options);

  /// In place. A collective: the same name and size on all ranks, which get the same bits.
  [[nodiscard]] virtual Task<> reduce(Communicator& communicator, const std::string& name,
                                      std::span<float> data, bool averages) = 0;
  /// The all_reduce that moves as many bytes.
  [[nodiscard]] virtual std::uint64_t equivalent_bytes(std::uint64_t elements, Rank ranks) const = 0;

  [[nodiscard]] const CompressionOptions& options() const noexcept { return options_; }
  /// For checkpoints: residuals and what else is kept from step to step, by name.
  using State = std::map<std::string, std::vector<float>>;
  [[nodiscard]] const State& state() const noexcept { return state_; }
  void restore(State state) { state_ = std::move(state); }

 protected:
  /// Of so many zeros, unless it is there with that size.
  [[nodiscard]] std::vector<float>& kept(const std::string& name, std::size_t size);
  /// Adds the residual to the data; empty without error feedback.
  [[nodiscard]] std::span<float> with_residual(const std::string& name, std::span<float> data);

 private:
  CompressionOptions options_;
  State state_;
};

/// Values as int8 with a scale for each block: value = scale * number. The error of each is at most half its
/// block's scale.
struct Quantised {
  std::vector<std::int8_t> numbers;  ///< 0 in a block that holds a value that is not finite
  std::vector<float> scales;         ///< not a number for such a block: all of it stands for that
};
[[nodiscard]] Quantised quantise(std::span<const float> values);
/// Adds what they stand for.
void add_dequantised(std::span<const std::int8_t> numbers, std::span<const float> scales,
                     std::span<float> to);

/// Without the sign: in the order of magnitudes, and from kInfinityBits on of what is not finite. Loops over
/// these become vectors, where comparisons of floats that may be no numbers do not.
[[nodiscard]] inline std::int32_t magnitude_bits(float value) noexcept {
  return std::bit_cast<std::int32_t>(value) & 0x7fffffff;
}
inline constexpr std::int32_t kInfinityBits = 0x7f800000;

/// Zero where the value is not finite: what overflowed in one step is not kept for the next ones.
[[nodiscard]] inline float finite_or_zero(float value) noexcept {
  return magnitude_bits(value) < kInfinityBits ? value : 0;
}

}  // namespace cohort::graph
