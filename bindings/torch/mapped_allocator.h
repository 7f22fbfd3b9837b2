// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/face.h>

#include <memory>

namespace cohort::torch_face {

/// From here on the tensors that this thread makes lie in memory that peers of these ranks map, where they
/// are large enough for that to matter and there is room; those of others, and smaller ones, as before. Null:
/// no more. The first call puts an allocator before torch's own, for good.
void map_new_tensors(std::shared_ptr<Ranks> ranks);

/// As long as it lives this thread makes ordinary tensors: for what runs on the engine, which would wait for
/// itself to give it memory.
class OrdinaryTensors {
 public:
  OrdinaryTensors() noexcept;
  ~OrdinaryTensors();
  OrdinaryTensors(const OrdinaryTensors&) = delete;
  OrdinaryTensors& operator=(const OrdinaryTensors&) = delete;

 private:
  std::shared_ptr<Ranks> before_;
};

}  // namespace cohort::torch_face
