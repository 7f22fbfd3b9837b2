// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>

#include <cstddef>
#include <span>

namespace cohort::graph {

/// Whether each rank divides what it gives before anything is added up: averages of floats of 16 bits, whose
/// sum over all ranks may be beyond what the type holds, as DistributedDataParallel does it.
[[nodiscard]] bool divides_first(DataType type, ReduceOp reduction) noexcept;

/// Divides values of float16 or bfloat16 by the number of ranks, in place, on the compute pool.
[[nodiscard]] Task<> divide_by(Rank ranks, Engine& engine, DataType type, std::span<std::byte> data);

/// One all_reduce of a bucket in place. A collective.
[[nodiscard]] Task<> reduce_flat(Communicator& communicator, DataType type, ReduceOp reduction,
                                 std::span<std::byte> data);

}  // namespace cohort::graph
