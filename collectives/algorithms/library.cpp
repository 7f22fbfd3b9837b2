// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/library.h>

#include <cohort/collectives/algorithms/alone.h>

#include <vector>

namespace cohort {
namespace {

template <class... Op>
void add_alone(std::vector<AnyAlgorithm>& list, OperatorList<Op...>) {
  (list.emplace_back(kAlone<Op>), ...);
}

/// Of those that run where the ranks are, the first is taken on mapped memory, and of equal ones over links.
std::vector<AnyAlgorithm> list_all() {
  std::vector<AnyAlgorithm> list = {
      kBarrierSlots,         kBarrierDirect,       kBarrierOneShot,        kBarrierTree,
      kBarrierRing,          kBroadcastSlots,      kBroadcastDirect,       kBroadcastOneShot,
      kBroadcastTree,        kBroadcastMesh,       kBroadcastRing,         kAllReduceSlots,
      kAllReduceDirect,      kAllReduceOneShot,    kAllReduceTree,         kAllReduceRecursiveDoubling,
      kAllReduceMesh,        kAllReduceRing,       kAllGatherSlots,        kAllGatherDirect,
      kAllGatherOneShot,     kAllGatherTree,       kAllGatherMesh,         kAllGatherRing,
      kReduceScatterSlots,   kReduceScatterDirect, kReduceScatterMesh,     kReduceScatterTree,
      kReduceScatterRing,    kReduceSlots,         kReduceDirect,          kReduceOneShot,
      kReduceTree,           kReduceMesh,          kGatherSlots,           kGatherDirect,
      kGatherOneShot,        kGatherTree,          kScatterSlots,          kScatterDirect,
      kScatterOneShot,       kScatterTree,         kAllToAllSlots,         kAllToAllDirect,
      kAllToAllMesh,         kAllToAllBruck,       kAllToAllPairwise,      kAllGatherVSlots,
      kAllGatherVDirect,     kAllGatherVOneShot,   kAllGatherVRing,        kReduceScatterVSlots,
      kReduceScatterVDirect, kReduceScatterVMesh,  kReduceScatterVRing,    kGatherVSlots,
      kGatherVDirect,        kGatherVOneShot,      kGatherVTree,           kScatterVSlots,
      kScatterVDirect,       kScatterVOneShot,     kScatterVTree,          kAllToAllVcSlots,
      kAllToAllVcDirect,     kAllToAllVcMesh,      kAllToAllVcPairwise,    kScanSlots,
      kScanDirect,           kScanOneShot,         kScanRecursiveDoubling, kScanMesh,
      kExclusiveScanSlots,   kExclusiveScanDirect, kExclusiveScanOneShot,  kExclusiveScanRecursiveDoubling,
      kExclusiveScanMesh,
  };
  add_alone(list, Operators{});
  return list;
}

}  // namespace

std::span<const AnyAlgorithm> algorithms_of_the_library() {
  static const std::vector<AnyAlgorithm> list = list_all();
  return list;
}

}  // namespace cohort
