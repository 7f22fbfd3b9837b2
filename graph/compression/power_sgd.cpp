// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/power_sgd.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/splitmix64.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace cohort::graph {
namespace {

constexpr float kLeastNorm = 1e-8F;

/// Nearly square; the last row may be short.
struct MatrixShape {
  std::size_t rows;
  std::size_t columns;

  explicit MatrixShape(std::size_t elements)
      : rows(std::max<std::size_t>(1, static_cast<std::size_t>(std::sqrt(static_cast<double>(elements))))),
        columns((elements + rows - 1) / rows) {}
};

/// The same on all ranks.
void fill_random(std::span<float> values) {
  std::uint64_t state = 1;
  for (float& value : values)
    value = static_cast<float>(splitmix64(state++) >> 40U) / static_cast<float>(1U << 23U) - 1.0F;
}

/// Columns one after another, each without its part along those before it (Gram and Schmidt).
void make_orthogonal(std::span<float> matrix, std::size_t rows, std::size_t rank) {
  for (std::size_t k = 0; k < rank; ++k) {
    for (std::size_t before = 0; before < k; ++before) {
      float along = 0;
      for (std::size_t i = 0; i < rows; ++i) along += matrix[i * rank + k] * matrix[i * rank + before];
      for (std::size_t i = 0; i < rows; ++i) matrix[i * rank + k] -= along * matrix[i * rank + before];
    }
    float square = 0;
    for (std::size_t i = 0; i < rows; ++i) square += matrix[i * rank + k] * matrix[i * rank + k];
    const float inverse = 1 / (std::sqrt(square) + kLeastNorm);
    for (std::size_t i = 0; i < rows; ++i) matrix[i * rank + k] *= inverse;
  }
}

/// P = M Q.
void multiply(std::span<const float> m, std::span<const float> q, std::span<float> p,
              const MatrixShape& shape, std::size_t rank) {
  std::ranges::fill(p, 0.0F);
  for (std::size_t at = 0; at < m.size(); ++at)
    for (std::size_t k = 0; k < rank; ++k)
      p[at / shape.columns * rank + k] += m[at] * q[at % shape.columns * rank + k];
}

/// Q = M' P.
void multiply_turned(std::span<const float> m, std::span<const float> p, std::span<float> q,
                     const MatrixShape& shape, std::size_t rank) {
  std::ranges::fill(q, 0.0F);
  for (std::size_t at = 0; at < m.size(); ++at)
    for (std::size_t k = 0; k < rank; ++k)
      q[at % shape.columns * rank + k] += m[at] * p[at / shape.columns * rank + k];
}

float product_at(std::span<const float> p, std::span<const float> q, const MatrixShape& shape,
                 std::size_t rank, std::size_t at) {
  float sum = 0;
  for (std::size_t k = 0; k < rank; ++k)
    sum += p[at / shape.columns * rank + k] * q[at % shape.columns * rank + k];
  return sum;
}

}  // namespace

Task<> PowerSgdCompressor::reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                                  bool averages) {
  if (data.empty()) co_return;
  const MatrixShape shape(data.size());
  const std::size_t rank = std::max<std::size_t>(1, std::min<std::size_t>(options().rank, shape.rows));
  std::vector<float>& q = kept(name + ".q", shape.columns * rank);
  if (std::ranges::all_of(q, [](float value) { return value == 0; })) fill_random(q);
  const std::span<float> residual = with_residual(name, data);
  std::vector<float> p(shape.rows * rank);
  Engine& engine = communicator.engine();
  const auto first = [&] { multiply(data, q, p, shape, rank); };
  auto multiplying = engine.offload(std::cref(first));
  co_await multiplying;
  co_await communicator.all_reduce(std::span(p), ReduceOp::avg);
  const auto second = [&] {
    make_orthogonal(p, shape.rows, rank);
    multiply_turned(data, p, q, shape, rank);
  };
  auto turning = engine.offload(std::cref(second));
  co_await turning;
  co_await communicator.all_reduce(std::span(q), ReduceOp::avg);
  const float weight = averages ? 1.0F : static_cast<float>(communicator.size());
  const auto last = [&] {
    for (std::size_t at = 0; at < data.size(); ++at) {
      const float value = product_at(p, q, shape, rank, at);
      if (!residual.empty()) residual[at] = finite_or_zero(data[at] - value);
      data[at] = weight * value;
    }
    if (!std::ranges::all_of(q, [](float value) { return std::isfinite(value); }))
      std::ranges::fill(q, 0.0F);  // begins anew with the next one, on all ranks
  };
  auto finishing = engine.offload(std::cref(last));
  co_await finishing;
}

std::uint64_t PowerSgdCompressor::equivalent_bytes(std::uint64_t elements, Rank) const {
  const MatrixShape shape(elements);
  return (shape.rows + shape.columns) * options().rank * sizeof(float);
}

}  // namespace cohort::graph
