// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/datatype.h>
#include <cohort/collectives/call/function_reduction.h>
#include <cohort/collectives/schedules/data_type.h>
#include <cohort/collectives/schedules/reduce_op.h>

#include <memory>

namespace cohort::mpi {

/// How the elements of a call are combined.
struct Reduction {
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::bit_or;
  std::shared_ptr<const ElementFunction> function{};  ///< null: by `op`
};

/// Throws Failure for an operation that does not go with such elements, and for a datatype with gaps.
[[nodiscard]] Reduction reduction_of(MPI_Op op, MPI_Datatype datatype);
/// The same by a function in any case.
[[nodiscard]] std::shared_ptr<const ElementFunction> function_of(MPI_Op op, MPI_Datatype datatype);

}  // namespace cohort::mpi
