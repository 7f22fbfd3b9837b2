// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/process_group.h>

#include <functional>

namespace cohort::torch_face {

/// What a call leaves to whoever waits for it.
struct ProcessGroupCohort::Job {
  c10d::OpType type;
  const char* title;               ///< for profilers; null: a part that is not shown
  Tensors inputs{};                ///< for profilers, and to live as long
  Tensors outputs{};               ///< the result
  std::function<void()> finish{};  ///< once the call has succeeded
};

}  // namespace cohort::torch_face
