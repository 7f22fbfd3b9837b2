// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/algorithms/table.h>

#include <array>

namespace cohort {
namespace {

constexpr std::array<std::string_view, kAlgorithms> kNames = {"one_shot",           "mesh", "ring",
                                                              "recursive_doubling", "tree", "direct"};

}  // namespace

std::string_view to_string(AlgorithmId id) noexcept { return kNames[static_cast<std::size_t>(id)]; }

std::span<const std::string_view> algorithm_names() noexcept { return kNames; }

std::optional<AlgorithmId> parse_algorithm(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<AlgorithmId>(i);
  return std::nullopt;
}

template <>
std::span<const Algorithm<Barrier>> algorithms() {
  static const std::array kTable = {kBarrierDirect, kBarrierOneShot, kBarrierTree, kBarrierRing};
  return kTable;
}

template <>
std::span<const Algorithm<Broadcast>> algorithms() {
  static const std::array kTable = {kBroadcastDirect, kBroadcastOneShot, kBroadcastTree, kBroadcastMesh,
                                    kBroadcastRing};
  return kTable;
}

template <>
std::span<const Algorithm<AllReduce>> algorithms() {
  static const std::array kTable = {kAllReduceDirect, kAllReduceOneShot,
                                    kAllReduceTree,   kAllReduceRecursiveDoubling,
                                    kAllReduceMesh,   kAllReduceRing};
  return kTable;
}

template <>
std::span<const Algorithm<AllGather>> algorithms() {
  static const std::array kTable = {kAllGatherDirect, kAllGatherOneShot, kAllGatherTree, kAllGatherMesh,
                                    kAllGatherRing};
  return kTable;
}

template <>
std::span<const Algorithm<ReduceScatter>> algorithms() {
  static const std::array kTable = {kReduceScatterDirect, kReduceScatterMesh, kReduceScatterTree,
                                    kReduceScatterRing};
  return kTable;
}

}  // namespace cohort
