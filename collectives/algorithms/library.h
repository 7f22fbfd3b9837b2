// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>

#include <span>

/// Every algorithm of the library, one file each: OPERATOR_NAME.cpp beside this one; those of an operator
/// that is a variant of another (variant_of()) beside the other's.
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

extern const Algorithm<Gather> kGatherSlots;
extern const Algorithm<Gather> kGatherDirect;
extern const Algorithm<Gather> kGatherOneShot;
extern const Algorithm<Gather> kGatherTree;

extern const Algorithm<Scatter> kScatterSlots;
extern const Algorithm<Scatter> kScatterDirect;
extern const Algorithm<Scatter> kScatterOneShot;
extern const Algorithm<Scatter> kScatterTree;

extern const Algorithm<AllToAll> kAllToAllSlots;
extern const Algorithm<AllToAll> kAllToAllDirect;
extern const Algorithm<AllToAll> kAllToAllMesh;
extern const Algorithm<AllToAll> kAllToAllBruck;
extern const Algorithm<AllToAll> kAllToAllPairwise;

extern const Algorithm<AllGatherV> kAllGatherVSlots;
extern const Algorithm<AllGatherV> kAllGatherVDirect;
extern const Algorithm<AllGatherV> kAllGatherVOneShot;
extern const Algorithm<AllGatherV> kAllGatherVRing;

extern const Algorithm<ReduceScatterV> kReduceScatterVSlots;
extern const Algorithm<ReduceScatterV> kReduceScatterVDirect;
extern const Algorithm<ReduceScatterV> kReduceScatterVMesh;
extern const Algorithm<ReduceScatterV> kReduceScatterVRing;

extern const Algorithm<GatherV> kGatherVSlots;
extern const Algorithm<GatherV> kGatherVDirect;
extern const Algorithm<GatherV> kGatherVOneShot;
extern const Algorithm<GatherV> kGatherVTree;

extern const Algorithm<ScatterV> kScatterVSlots;
extern const Algorithm<ScatterV> kScatterVDirect;
extern const Algorithm<ScatterV> kScatterVOneShot;
extern const Algorithm<ScatterV> kScatterVTree;

extern const Algorithm<AllToAllVc> kAllToAllVcSlots;
extern const Algorithm<AllToAllVc> kAllToAllVcDirect;
extern const Algorithm<AllToAllVc> kAllToAllVcMesh;
extern const Algorithm<AllToAllVc> kAllToAllVcPairwise;

extern const Algorithm<Scan> kScanSlots;
extern const Algorithm<Scan> kScanDirect;
extern const Algorithm<Scan> kScanOneShot;
extern const Algorithm<Scan> kScanRecursiveDoubling;
extern const Algorithm<Scan> kScanMesh;

extern const Algorithm<ExclusiveScan> kExclusiveScanSlots;
extern const Algorithm<ExclusiveScan> kExclusiveScanDirect;
extern const Algorithm<ExclusiveScan> kExclusiveScanOneShot;
extern const Algorithm<ExclusiveScan> kExclusiveScanRecursiveDoubling;
extern const Algorithm<ExclusiveScan> kExclusiveScanMesh;

}  // namespace cohort
