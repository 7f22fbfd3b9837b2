// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/graph.h>

#include <string>

namespace cohort::graph {

/// State that clip_gradients() adds, of one element each.
inline constexpr const char* kLossScale = "loss_scale";  ///< what the loss was multiplied with; 0 means 1
inline constexpr const char* kOverflow = "gradient_overflow";  ///< 1 where the last gradients were not finite
inline constexpr const char* kGradientNorm =
    "gradient_norm";  ///< of the last gradients, before they were clipped

/// A node `clip` between reduced gradients, all float32, and the updates that read them: divides by the loss
/// scale, and where the norm of all together is above `max_norm` (0: none) by as much as it is. Gradients
/// that are not finite become zero. Where they lie; nothing is copied. All ranks have the same bits, so they
/// decide alike without another collective. Of graphs that insert_all_reduce() has made. Throws GraphError
/// (all_reduce_insert) where no update reads a reduced gradient, or one of another type.
[[nodiscard]] Graph clip_gradients(Graph graph, double max_norm);

/// What the loss is multiplied with, so that small gradients stay above what 16 bits hold: half of it after
/// an overflow, double after so many steps without one.
class LossScaler {
 public:
  explicit LossScaler(float scale = 65536, unsigned growth_steps = 2000)
      : scale_(scale), growth_steps_(growth_steps) {}

  [[nodiscard]] float scale() const noexcept { return scale_; }
  void update(bool has_overflow) noexcept;

 private:
  float scale_;
  unsigned growth_steps_;
  unsigned steps_ = 0;  ///< without an overflow
};

}  // namespace cohort::graph
