// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/machine.h>
#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/ccl_buffer.h>

#include <string>
#include <vector>

namespace cohort::sim {

/// One run to predict.
struct Setup {
  Rank ranks = 4;
  /// Of the largest buffer that a rank has: the vector of an all_reduce, the whole output of an all_gather.
  std::size_t bytes = 0;
  DataType type = DataType::float32;
  Rank root = 0;
  std::size_t buffer_bytes = kDefaultBufferBytes;  ///< of each CCL buffer
  bool has_shared_buffers = false;  ///< of the callers, that peers on the host map: comm.allocate()
  std::uint64_t seed = 0;           ///< of what happens at one moment; 0: first come, first served
};

struct Prediction {
  double microseconds = 0;  ///< until the last rank is done; as far as it came if it did not end
  std::uint64_t messages = 0;
  std::vector<Use> uses;
  /// Faults that came about, and who waits for whom; did_end says whether all ranks came through.
  std::vector<std::string> complaints;
  bool did_end = false;
};

/// Runs the schedules of all ranks on a virtual clock and says how long they take.
/// Throws InvalidArgument for a setup or topology that makes no sense.
[[nodiscard]] Prediction simulate(const AnyAlgorithm& algorithm, const Topology& topology, const Setup& setup,
                                  const Watchers& watchers = {});

/// How many messages that will take, as the schedule's cost says; 0 for one that has none.
[[nodiscard]] double predicted_messages(const AnyAlgorithm& algorithm, const Topology& topology,
                                        const Setup& setup);

}  // namespace cohort::sim
