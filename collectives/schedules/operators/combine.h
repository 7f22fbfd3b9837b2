// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>
#include <cohort/collectives/schedules/reduce_op.h>
#include <cohort/net/rank.h>

namespace cohort {

/// How values are combined: what a schedule passes on to a reducing step, and never looks into.
struct Combine {
  Combine() = default;
  /// A scaled sum is the sum of what each rank has scaled before.
  Combine(DataType of_type, ReduceOp with_op, Rank ranks) noexcept
      : type(of_type),
        op(with_op == ReduceOp::scaled_sum ? ReduceOp::sum : with_op),
        average_over(with_op == ReduceOp::avg ? ranks : 0) {}

  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank average_over = 0;  ///< divide by this as the last step; 0: do not
};

}  // namespace cohort
