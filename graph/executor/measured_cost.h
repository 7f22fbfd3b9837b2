// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/graph/planner/cost.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace cohort::graph {

struct MeasureOptions {
  DataType type = DataType::float32;
  std::vector<std::uint64_t> sizes_bytes = {4096, 65536, std::uint64_t{1} << 20, std::uint64_t{4} << 20};
  unsigned repetitions = 5;  ///< of each size: their median counts
};

/// What all_reduce takes here, as a line: single ones and such that are queued behind another one, the
/// slowest rank's. A collective, of 3 * repetitions calls for each size; the same numbers on all ranks.
[[nodiscard]] Task<LinearCost> measure_cost(Communicator& communicator, MeasureOptions options);

/// What the library's model of its links says, measured as ranks joined: the slowest rank's, and the same on
/// all. A collective, of one call. Nothing where the model knows nothing, as it may between the ranks of one
/// host.
[[nodiscard]] Task<std::optional<Cost>> model_cost(Communicator& communicator, MeasureOptions options);

}  // namespace cohort::graph
