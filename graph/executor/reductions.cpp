// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/reductions.h>

#include <cohort/engine/engine.h>

#include <functional>

namespace cohort::graph {
namespace {

/// By the factor in float, which scaled_sum() would round to the type first.
template <class Small>
void multiply(std::span<std::byte> data, float factor) noexcept {
  const std::span<Small> values(reinterpret_cast<Small*>(data.data()), data.size() / sizeof(Small));
  for (Small& value : values) value = Small(static_cast<float>(value) * factor);
}

}  // namespace

bool divides_first(DataType type, ReduceOp reduction) noexcept {
  return reduction == ReduceOp::avg && (type == DataType::float16 || type == DataType::bfloat16);
}

Task<> divide_by(Rank ranks, Engine& engine, DataType type, std::span<std::byte> data) {
  const float factor = 1.0F / static_cast<float>(ranks);
  const auto divide = [&] {
    if (type == DataType::float16)
      multiply<float16>(data, factor);
    else
      multiply<bfloat16>(data, factor);
  };
  auto dividing = engine.offload(std::cref(divide));
  co_await dividing;
}

Task<> reduce_flat(Communicator& communicator, DataType type, ReduceOp reduction, std::span<std::byte> data) {
  const bool is_divided = divides_first(type, reduction);
  if (is_divided) co_await divide_by(communicator.size(), communicator.engine(), type, data);
  const Combination op = is_divided ? ReduceOp::sum : reduction;
  co_await communicator.all_reduce(type, data, data, op);
}

}  // namespace cohort::graph
