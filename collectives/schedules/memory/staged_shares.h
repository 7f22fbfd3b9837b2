// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/operators/all_reduce.h>
#include <cohort/collectives/schedules/placed.h>

namespace cohort {

/// Who wants the result of a reduction of which each rank combines a share: this rank, others, or both.
enum class Wanted : std::uint8_t { here, elsewhere, everywhere };

/// Puts what the others will combine, everything but my own share, at `at` of ccl_in.
Task<> publish_shares(Exec& x, AllReduce piece, std::size_t at);

/// Combines my share of what all have published, in rank order, into my output and to `at` of ccl_out, as it
/// is wanted.
Task<> combine_published(Exec& x, AllReduce piece, std::size_t at, Wanted wanted);

/// Takes the others' shares, which they have left at `at` of ccl_out.
Task<> collect_shares(Exec& x, AllReduce piece, std::size_t at);

/// Private memory: shares are exchanged through the CCL buffers. Piece k+1 is published before the phase that
/// makes piece k's shares visible, so that one phase serves both. `op.recv` is used where the result is
/// wanted.
Task<> reduce_through_ccl_buffers(Exec& x, AllReduce op, Wanted wanted);

}  // namespace cohort
