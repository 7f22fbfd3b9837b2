// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <mutex>
#include <optional>
#include <vector>

namespace cohort::torch_face {

/// Calls that a program makes within one of torch's coalescing managers: they start as always, and one Work
/// is over when all are. Threads: any.
class Coalescing {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  void start();
  void add(const Work& work);
  /// That of all since start(), maybe none.
  [[nodiscard]] Work end();

 private:
  std::mutex mutex_;
  std::optional<std::vector<Work>> works_;  ///< none: outside
};

}  // namespace cohort::torch_face
