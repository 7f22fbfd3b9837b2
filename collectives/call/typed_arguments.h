// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/memory/buffer.h>

#include <span>
#include <type_traits>

/// What a call is made of where the compiler knows the types of its buffers.
namespace cohort::detail {

template <class In, class Out>
[[nodiscard]] CallArguments typed_arguments(In& in, Out& out, Combination op = ReduceOp::sum, Rank root = 0) {
  check_pair<In, Out>();
  const Output to = output_of<Out>(out);
  return {.type = to.type, .reduce = op, .root = root, .in = input_of<In>(in).bytes, .out = to.bytes};
}

/// What is one element itself, and no memory of several.
template <class V>
concept Value = Element<std::remove_cvref_t<V>>;

/// From one value to another.
template <class T>
[[nodiscard]] CallArguments value_arguments(const T& in, T& out, Combination op, Rank root = 0) {
  return {.type = data_type_of<T>(),
          .reduce = op,
          .root = root,
          .in = std::as_bytes(std::span(&in, 1)),
          .out = std::as_writable_bytes(std::span(&out, 1))};
}

}  // namespace cohort::detail
