// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/scratch.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace cohort::torch_face {
namespace {

/// Smaller ones the C library keeps by itself.
constexpr std::size_t kLeastKeptBytes = std::size_t{64} << 10;

bool is_free(const at::Tensor& memory) { return memory.storage().use_count() == 1; }

}  // namespace

at::Tensor Scratch::flat_like(const std::vector<at::Tensor>& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return flat(count, tensors[0].scalar_type());
}

at::Tensor Scratch::flat(std::int64_t count, at::ScalarType type) {
  const std::size_t bytes = static_cast<std::size_t>(count) * c10::elementSize(type);
  if (bytes < kLeastKeptBytes || bytes > kMostKeptBytes) return at::empty({count}, type);
  // What is kept serves calls of every mode; the guard of inferences goes first, since it turns gradients on.
  const c10::InferenceMode ordinary(false);
  const at::NoGradGuard no_gradients;
  const std::lock_guard<std::mutex> lock(mutex_);  // until there is a second tensor, by which it is in use
  return take(bytes).narrow(0, 0, static_cast<std::int64_t>(bytes)).view(type);
}

at::Tensor Scratch::take(std::size_t bytes) {
  for (const at::Tensor& memory : kept_)
    if (is_free(memory) && memory.nbytes() >= bytes) return memory;
  // It takes the place of smaller ones; several are kept where they are in use together.
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), is_free), kept_.end());
  at::Tensor memory = make(bytes);
  std::size_t in_use = 0;
  for (const at::Tensor& other : kept_) in_use += other.nbytes();
  if (in_use + bytes <= kMostKeptBytes) kept_.push_back(memory);
  return memory;
}

at::Tensor Scratch::make(std::size_t bytes) {
  const auto count = static_cast<std::int64_t>(bytes);
  std::shared_ptr<void> memory = ranks_->allocate(bytes);
  if (memory == nullptr) return at::empty({count}, at::kByte);
  void* const data = memory.get();
  return at::from_blob(
      data, {count}, [memory = std::move(memory)](void*) {}, at::kByte);
}

}  // namespace cohort::torch_face
