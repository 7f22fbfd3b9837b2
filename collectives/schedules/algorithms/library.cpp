// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>

#include <cohort/collectives/schedules/algorithms/alone.h>

#include <vector>

namespace cohort {

template <class... Name>
struct NameList {};

/// The list: a line each. Of those that run where the ranks are, the first is taken on mapped memory, and of
/// equal ones over links. So those whose ranks exchange in pairs come before those around a ring, slower
/// where ranks share cores; but all_reduce by nhr, faster there, comes before rhd.
// clang-format off
using LibraryNames = NameList<
    struct BarrierSlots,
    struct BarrierDirect,
    struct BarrierOneShot,
    struct BarrierTree,
    struct BarrierRecursiveDoubling,
    struct BarrierRing,
    struct BarrierNb,
    struct BarrierTreeNb,
    struct BroadcastSlots,
    struct BroadcastDirect,
    struct BroadcastOneShot,
    struct BroadcastTree,
    struct BroadcastMesh,
    struct BroadcastRing,
    struct BroadcastRhd,
    struct BroadcastNb,
    struct BroadcastNhr,
    struct BroadcastDoubleTree,
    struct BroadcastMeshNhr,
    struct BroadcastAhc,
    struct AllReduceSlots,
    struct AllReduceDirect,
    struct AllReduceOneShot,
    struct AllReduceTree,
    struct AllReduceRecursiveDoubling,
    struct AllReduceMesh,
    struct AllReduceRing,
    struct AllReduceTwoRings,
    struct AllReduceNhr,
    struct AllReduceRhd,
    struct AllReduceNb,
    struct AllReduceNbReversed,
    struct AllReduceDoubleTree,
    struct AllReduceMeshNhr,
    struct AllReduceMeshRing,
    struct AllReduceMeshMeshNhr,
    struct AllReduceMeshNhrPipelined,
    struct AllReduceTreeNhr,
    struct AllReduceAhc,
    struct AllGatherSlots,
    struct AllGatherDirect,
    struct AllGatherOneShot,
    struct AllGatherRecursiveDoubling,
    struct AllGatherTree,
    struct AllGatherMesh,
    struct AllGatherRing,
    struct AllGatherTwoRings,
    struct AllGatherNb,
    struct AllGatherNhr,
    struct AllGatherMeshNhr,
    struct AllGatherMeshMeshNhr,
    struct AllGatherAhc,
    struct ReduceScatterSlots,
    struct ReduceScatterDirect,
    struct ReduceScatterMesh,
    struct ReduceScatterRhd,
    struct ReduceScatterTree,
    struct ReduceScatterRing,
    struct ReduceScatterTwoRings,
    struct ReduceScatterNb,
    struct ReduceScatterNbReversed,
    struct ReduceScatterNhr,
    struct ReduceScatterMeshNhr,
    struct ReduceScatterMeshMeshNhr,
    struct ReduceScatterAhc,
    struct ReduceSlots,
    struct ReduceDirect,
    struct ReduceOneShot,
    struct ReduceTree,
    struct ReduceMesh,
    struct ReduceRing,
    struct ReduceRhd,
    struct ReduceNb,
    struct ReduceNhr,
    struct ReduceDoubleTree,
    struct ReduceMeshNhr,
    struct ReduceAhc,
    struct GatherSlots,
    struct GatherDirect,
    struct GatherOneShot,
    struct GatherTree,
    struct GatherStarStar,
    struct ScatterSlots,
    struct ScatterDirect,
    struct ScatterOneShot,
    struct ScatterTree,
    struct ScatterStarStar,
    struct AllToAllSlots,
    struct AllToAllDirect,
    struct AllToAllMesh,
    struct AllToAllBruck,
    struct AllToAllPairwise,
    struct AllToAllMeshPairwise,
    struct AllGatherVSlots,
    struct AllGatherVDirect,
    struct AllGatherVOneShot,
    struct AllGatherVRecursiveDoubling,
    struct AllGatherVTree,
    struct AllGatherVRing,
    struct AllGatherVMeshOneShot,
    struct AllGatherVAhc,
    struct ReduceScatterVSlots,
    struct ReduceScatterVDirect,
    struct ReduceScatterVTree,
    struct ReduceScatterVMesh,
    struct ReduceScatterVRhd,
    struct ReduceScatterVRing,
    struct ReduceScatterVMeshRing,
    struct ReduceScatterVAhc,
    struct GatherVSlots,
    struct GatherVDirect,
    struct GatherVOneShot,
    struct GatherVTree,
    struct GatherVStarStar,
    struct ScatterVSlots,
    struct ScatterVDirect,
    struct ScatterVOneShot,
    struct ScatterVTree,
    struct ScatterVStarStar,
    struct AllToAllVcSlots,
    struct AllToAllVcDirect,
    struct AllToAllVcMesh,
    struct AllToAllVcBruck,
    struct AllToAllVcPairwise,
    struct AllToAllVcMeshPairwise,
    struct ScanSlots,
    struct ScanDirect,
    struct ScanOneShot,
    struct ScanRecursiveDoubling,
    struct ScanMesh,
    struct ScanRing,
    struct ExclusiveScanSlots,
    struct ExclusiveScanDirect,
    struct ExclusiveScanOneShot,
    struct ExclusiveScanRecursiveDoubling,
    struct ExclusiveScanMesh,
    struct ExclusiveScanRing
>;
// clang-format on

/// What the file that has this name says of itself.
template <class Name>
AnyAlgorithm algorithm_of_name() {
  AnyAlgorithm describe(const Name*);
  return describe(static_cast<const Name*>(nullptr));
}

namespace {

template <class... Name>
std::vector<AnyAlgorithm> list_named(NameList<Name...>) {
  return {algorithm_of_name<Name>()...};
}

template <class... Op>
void add_alone(std::vector<AnyAlgorithm>& list, OperatorList<Op...>) {
  (list.emplace_back(kAlone<Op>), ...);
}

std::vector<AnyAlgorithm> list_all() {
  std::vector<AnyAlgorithm> list = list_named(LibraryNames{});
  add_alone(list, Operators{});
  return list;
}

}  // namespace

std::span<const AnyAlgorithm> algorithms_of_the_library() {
  static const std::vector<AnyAlgorithm> list = list_all();
  return list;
}

}  // namespace cohort
