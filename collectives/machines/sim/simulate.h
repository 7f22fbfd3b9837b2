// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/sim/machine.h>
#include <cohort/collectives/schedule/algorithm.h>

#include <string>
#include <vector>

namespace cohort::sim {

/// One run to predict.
struct Setup {
  Rank ranks = 4;
  /// Of the vector for broadcast and all_reduce, of the whole output for all_gather, of the whole input for
  /// reduce_scatter.
  std::size_t bytes = 0;
  Rank root = 0;
  std::size_t buffer_bytes = std::size_t{8} << 20;  ///< of each CCL buffer
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

/// Runs the schedules of all ranks on a virtual clock and says how long they take. Elements are float32.
/// Throws InvalidArgument for a setup or topology that makes no sense.
template <class Op>
[[nodiscard]] Prediction simulate(const Algorithm<Op>& algorithm, const Topology& topology,
                                  const Setup& setup, const Trace* trace = nullptr);

extern template Prediction simulate(const Algorithm<Barrier>&, const Topology&, const Setup&, const Trace*);
extern template Prediction simulate(const Algorithm<Broadcast>&, const Topology&, const Setup&, const Trace*);
extern template Prediction simulate(const Algorithm<AllReduce>&, const Topology&, const Setup&, const Trace*);
extern template Prediction simulate(const Algorithm<AllGather>&, const Topology&, const Setup&, const Trace*);
extern template Prediction simulate(const Algorithm<ReduceScatter>&, const Topology&, const Setup&,
                                    const Trace*);

}  // namespace cohort::sim
