// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/compression/cast.h>

#include <cohort/engine/engine.h>

#include <functional>

namespace cohort::graph {
namespace {

/// An average is one of values that are divided first: in 16 bits their sum may be beyond the type.
template <class Small>
Task<> reduce_as(Communicator& communicator, std::span<float> data, std::span<float> residual,
                 bool averages) {
  std::vector<Small> small(data.size());
  const float divisor = averages ? static_cast<float>(communicator.size()) : 1.0F;
  const auto encode = [&] {
    const float factor = 1.0F / divisor;
    for (std::size_t i = 0; i < data.size(); ++i) small[i] = Small(data[i] * factor);
    for (std::size_t i = 0; i < residual.size(); ++i)
      residual[i] = finite_or_zero(data[i] - divisor * static_cast<float>(small[i]));
  };
  auto encoding = communicator.engine().offload(std::cref(encode));
  co_await encoding;
  co_await communicator.all_reduce(std::span(small), ReduceOp::sum);
  const auto decode = [&] {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(small[i]);
  };
  auto decoding = communicator.engine().offload(std::cref(decode));
  co_await decoding;
}

}  // namespace

Task<> CastCompressor::reduce(Communicator& communicator, const std::string& name, std::span<float> data,
                              bool averages) {
  const std::span<float> residual = with_residual(name, data);
  if (options().kind == CompressionKind::fp16)
    co_await reduce_as<float16>(communicator, data, residual, averages);
  else
    co_await reduce_as<bfloat16>(communicator, data, residual, averages);
}

std::uint64_t CastCompressor::equivalent_bytes(std::uint64_t elements, Rank) const { return 2 * elements; }

}  // namespace cohort::graph
