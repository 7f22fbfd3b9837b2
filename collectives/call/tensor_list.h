// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/memory/buffer.h>

#include <cstddef>
#include <ranges>
#include <span>

namespace cohort {

/// Several buffers with elements of one type, wherever they lie: the caller's own list, read when it is
/// needed, so that nothing is copied or allocated. The list and the buffers outlive whoever has this.
struct TensorList {
  DataType type{};
  std::size_t size = 0;
  const void* first = nullptr;  ///< of the list
  /// The bytes of one of them. Of a list that is only read they are not to be written to.
  std::span<std::byte> (*bytes_of)(const void* first, std::size_t index) = nullptr;

  [[nodiscard]] std::span<std::byte> operator[](std::size_t index) const { return bytes_of(first, index); }
};

namespace detail {

/// A list of buffers: a vector, array or span of what a collective takes by itself.
template <class R>
concept Tensors = Contiguous<R> && Contiguous<std::ranges::range_reference_t<R>> &&
    Element<std::remove_const_t<Held<std::ranges::range_reference_t<R>>>>;

template <Tensors R>
using Tensor = std::ranges::range_reference_t<R>;

/// Of what is only read.
template <Tensors R>
TensorList input_tensors_of(R& list) {
  if constexpr (stays<R>()) {
    using Buffer = std::remove_reference_t<Tensor<R>>;
    return {.type = data_type_of<std::remove_const_t<Held<Tensor<R>>>>(),
            .size = std::ranges::size(list),
            .first = std::ranges::data(list),
            .bytes_of = [](const void* first, std::size_t index) -> std::span<std::byte> {
              const auto& buffer = static_cast<const Buffer*>(first)[index];
              const std::span<const std::byte> bytes = input_of<decltype(buffer)>(buffer).bytes;
              return {const_cast<std::byte*>(bytes.data()), bytes.size()};
            }};
  } else {
    return {};
  }
}

template <Tensors R>
TensorList output_tensors_of(R& list) {
  if constexpr (is_writable<Tensor<R>>())
    return input_tensors_of<R>(list);
  else
    return {};
}

}  // namespace detail

}  // namespace cohort
