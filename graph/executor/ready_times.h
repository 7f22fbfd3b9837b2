// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/graph/timeline/timeline.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace cohort::graph {

/// When gradients were ready in steps that ran: the median, which one late step does not move.
class ReadyTimes {
 public:
  /// Of the tensors whose names these are: what the plan's items are called.
  explicit ReadyTimes(std::vector<std::string> names) : names_(std::move(names)) {}

  void add(const Graph& graph, const Timeline& step);
  void clear() { samples_.clear(); }
  [[nodiscard]] std::size_t steps() const noexcept { return steps_of(samples_); }
  [[nodiscard]] std::map<std::string, double> medians() const;

 private:
  using Samples = std::map<std::string, std::vector<double>>;
  [[nodiscard]] static std::size_t steps_of(const Samples& samples) noexcept {
    return samples.empty() ? 0 : samples.begin()->second.size();
  }

  std::vector<std::string> names_;
  Samples samples_;
};

/// The latest rank's time for each: a bucket travels when the last rank has it. A collective; all ranks give
/// the same names.
[[nodiscard]] Task<std::map<std::string, double>> share_ready_times(Communicator& communicator,
                                                                    std::map<std::string, double> ready_us);

}  // namespace cohort::graph
