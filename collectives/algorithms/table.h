// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>

#include <algorithm>
#include <cstddef>

/// Every algorithm of the library, one file each: <operator>_<algorithm>.cpp beside this one.
namespace cohort {

/// largest_piece of a schedule that uses no buffer of the communicator's.
inline constexpr std::size_t kWholeMessage = ~std::size_t{0};

extern const Algorithm<Barrier> kBarrierOneShot;
extern const Algorithm<Barrier> kBarrierRing;
extern const Algorithm<Barrier> kBarrierTree;
extern const Algorithm<Barrier> kBarrierDirect;

extern const Algorithm<Broadcast> kBroadcastOneShot;
extern const Algorithm<Broadcast> kBroadcastMesh;
extern const Algorithm<Broadcast> kBroadcastRing;
extern const Algorithm<Broadcast> kBroadcastTree;
extern const Algorithm<Broadcast> kBroadcastDirect;

extern const Algorithm<AllReduce> kAllReduceOneShot;
extern const Algorithm<AllReduce> kAllReduceMesh;
extern const Algorithm<AllReduce> kAllReduceRing;
extern const Algorithm<AllReduce> kAllReduceRecursiveDoubling;
extern const Algorithm<AllReduce> kAllReduceTree;
extern const Algorithm<AllReduce> kAllReduceDirect;

extern const Algorithm<AllGather> kAllGatherOneShot;
extern const Algorithm<AllGather> kAllGatherMesh;
extern const Algorithm<AllGather> kAllGatherRing;
extern const Algorithm<AllGather> kAllGatherTree;
extern const Algorithm<AllGather> kAllGatherDirect;

extern const Algorithm<ReduceScatter> kReduceScatterMesh;
extern const Algorithm<ReduceScatter> kReduceScatterRing;
extern const Algorithm<ReduceScatter> kReduceScatterTree;
extern const Algorithm<ReduceScatter> kReduceScatterDirect;

}  // namespace cohort
