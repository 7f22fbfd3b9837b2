// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/engine/engine.h>

#include <cstddef>
#include <vector>

namespace cohort {

/// The input of a scaled_sum, scaled before ranks combine it. Keeps its memory for the next one.
class ScaledInput {
 public:
  /// The same call on elements that are scaled: into the output, where that is as large and gets a result,
  /// and else beside. Others on the engine have their turns meanwhile. Throws std::bad_alloc.
  Task<Call> scale(Engine& engine, Call call, Rank rank);

 private:
  std::vector<std::byte> beside_;
};

}  // namespace cohort
