// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/face.h>

#include <ATen/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cohort::torch_face {

/// Memory for tensors that lie apart and travel in one piece, kept from call to call: the kernel takes longer
/// to give new memory than copying to it takes.
///
/// Peers map it where their heap has room. Keeps what has been needed at the same time, up to kMostKeptBytes.
/// Threads: any.
class Scratch {
 public:
  explicit Scratch(std::shared_ptr<Ranks> ranks) noexcept : ranks_(std::move(ranks)) {}

  static constexpr std::size_t kMostKeptBytes = std::size_t{256} << 20;

  /// One dimension, as many elements as all of `tensors`, of the first one's type, not filled. The memory is
  /// free again when nothing refers to it any more.
  [[nodiscard]] at::Tensor flat_like(const std::vector<at::Tensor>& tensors);
  [[nodiscard]] at::Tensor flat(std::int64_t count, at::ScalarType type);

 private:
  /// With the lock, which is held until what it gives is referred to twice.
  [[nodiscard]] at::Tensor take(std::size_t bytes);
  [[nodiscard]] at::Tensor make(std::size_t bytes);

  const std::shared_ptr<Ranks> ranks_;
  std::mutex mutex_;
  std::vector<at::Tensor> kept_;  ///< of bytes; those that nothing else refers to are free
};

}  // namespace cohort::torch_face
