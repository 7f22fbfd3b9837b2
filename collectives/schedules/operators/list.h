// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/operators/all_gather.h>
#include <cohort/collectives/schedules/operators/all_gather_v.h>
#include <cohort/collectives/schedules/operators/all_reduce.h>
#include <cohort/collectives/schedules/operators/all_to_all.h>
#include <cohort/collectives/schedules/operators/all_to_all_vc.h>
#include <cohort/collectives/schedules/operators/barrier.h>
#include <cohort/collectives/schedules/operators/broadcast.h>
#include <cohort/collectives/schedules/operators/exclusive_scan.h>
#include <cohort/collectives/schedules/operators/gather.h>
#include <cohort/collectives/schedules/operators/gather_v.h>
#include <cohort/collectives/schedules/operators/reduce.h>
#include <cohort/collectives/schedules/operators/reduce_scatter.h>
#include <cohort/collectives/schedules/operators/reduce_scatter_v.h>
#include <cohort/collectives/schedules/operators/scan.h>
#include <cohort/collectives/schedules/operators/scatter.h>
#include <cohort/collectives/schedules/operators/scatter_v.h>

#include <cstddef>
#include <type_traits>

namespace cohort {

template <class... Op>
struct OperatorList {
  static constexpr std::size_t kSize = sizeof...(Op);

  /// Its place in the list.
  template <class Wanted>
  static constexpr std::size_t index_of() {
    std::size_t index = 0;
    (void)((std::is_same_v<Wanted, Op> || (++index, false)) || ...);
    static_assert((std::is_same_v<Wanted, Op> || ...), "an operator that is not in the list");
    return index;
  }
};

/// Every operator of the library, a line or a name each. The order is that of tables, of what ranks sign
/// with, and in which they measure what is best when they have joined.
using Operators =
    OperatorList<Barrier, AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Gather, Scatter, AllToAll,
                 AllGatherV, ReduceScatterV, GatherV, ScatterV, AllToAllVc, Scan, ExclusiveScan>;

}  // namespace cohort
