// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/memory/pulled.h>
#include <cohort/collectives/schedules/memory/shares.h>
#include <cohort/collectives/schedules/memory/staged_shares.h>

namespace cohort {
namespace all_reduce_direct {
namespace {

/// Every rank's memory can be read: combine my share of all inputs, meet, pull the other shares.
Task<> from_user_windows(Exec& x, AllReduce op) {
  const Blocks send(op.send, x.size(), op.element_bytes);
  const Blocks recv(op.recv, x.size(), op.element_bytes);
  co_await combine_pulled(x, send[x.rank()], recv[x.rank()], op.combine, op.element_bytes);
  co_await x.phase();
  for (const Rank peer : x.peers()) co_await x.pull(peer, recv[peer], recv[peer]);
  co_await x.phase();
}

/// Direct all_reduce on mapped memory: rank r combines share r of all inputs, in rank order (determinism D3).
///
/// Cost: 1 phase (zero copy), 2 (pulled), or 1 per piece of half a stage and 1 more; 2(p-1)/p * bytes moved
/// and bytes reduced per rank. Streams: main. Scratch: none. Source: the reduce-scatter + all-gather
/// composition of Rabenseifner 2004, with loads and stores in place of messages.
Task<> all_reduce_direct(Exec& x, AllReduce op) {
  return x.plan().reaches() ? from_user_windows(x, op)
                            : reduce_through_ccl_buffers(x, op, Wanted::everywhere);
}

const Algorithm<AllReduce> kAlgorithm = {
    .name = "direct",
    .scope = Scope::node,
    .order = ReductionOrder::by_rank_at_once,
    .cost = cost_of_own_share,
    .schedule = all_reduce_direct,
    .local = {.announces = Announces::windows, .combine = combine_own_share}};

}  // namespace
}  // namespace all_reduce_direct

AnyAlgorithm describe(const struct AllReduceDirect*) { return all_reduce_direct::kAlgorithm; }

}  // namespace cohort
