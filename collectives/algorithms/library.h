// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>

#include <span>

/// Every algorithm of the library, one file each: OPERATOR_NAME.cpp beside this one.
namespace cohort {

/// In the order in which equals are preferred; "alone" of every operator among them.
[[nodiscard]] std::span<const AnyAlgorithm> algorithms_of_the_library();

extern const Algorithm<Barrier> kBarrierSlots;
extern const Algorithm<Barrier> kBarrierDirect;
extern const Algorithm<Barrier> kBarrierOneShot;
extern const Algorithm<Barrier> kBarrierTree;
extern const Algorithm<Barrier> kBarrierRing;

extern const Algorithm<Broadcast> kBroadcastSlots;
extern const Algorithm<Broadcast> kBroadcastDirect;
extern const Algorithm<Broadcast> kBroadcastOneShot;
extern const Algorithm<Broadcast> kBroadcastTree;
extern const Algorithm<Broadcast> kBroadcastMesh;
extern const Algorithm<Broadcast> kBroadcastRing;

extern const Algorithm<AllReduce> kAllReduceSlots;
extern const Algorithm<AllReduce> kAllReduceDirect;
extern const Algorithm<AllReduce> kAllReduceOneShot;
extern const Algorithm<AllReduce> kAllReduceTree;
extern const Algorithm<AllReduce> kAllReduceRecursiveDoubling;
extern const Algorithm<AllReduce> kAllReduceMesh;
extern const Algorithm<AllReduce> kAllReduceRing;

extern const Algorithm<AllGather> kAllGatherSlots;
extern const Algorithm<AllGather> kAllGatherDirect;
extern const Algorithm<AllGather> kAllGatherOneShot;
extern const Algorithm<AllGather> kAllGatherTree;
extern const Algorithm<AllGather> kAllGatherMesh;
extern const Algorithm<AllGather> kAllGatherRing;

extern const Algorithm<ReduceScatter> kReduceScatterSlots;
extern const Algorithm<ReduceScatter> kReduceScatterDirect;
extern const Algorithm<ReduceScatter> kReduceScatterMesh;
extern const Algorithm<ReduceScatter> kReduceScatterTree;
extern const Algorithm<ReduceScatter> kReduceScatterRing;

extern const Algorithm<Reduce> kReduceSlots;
extern const Algorithm<Reduce> kReduceDirect;
extern const Algorithm<Reduce> kReduceOneShot;
extern const Algorithm<Reduce> kReduceTree;
extern const Algorithm<Reduce> kReduceMesh;

}  // namespace cohort
