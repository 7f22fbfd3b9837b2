// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection.h>

#include <cohort/engine/error.h>
#include <cohort/net/shm/segment.h>

#include <fmt/format.h>

namespace cohort {
namespace {

/// Data that one rank puts into its arrival slot.
std::size_t slot_bytes(const Call& call) { return call.op == Operator::barrier ? 0 : call.send_bytes; }

std::string choices(const std::vector<AlgorithmId>& ids) {
  std::string text;
  for (const AlgorithmId id : ids) text += (text.empty() ? "" : ", ") + std::string(to_string(id));
  return text;
}

template <class Op>
AlgorithmId choose(const Call& call, const Reach& reach, std::optional<AlgorithmId> forced) {
  std::optional<AlgorithmId> best;
  double best_us = 0;
  std::vector<AlgorithmId> applicable;
  for (const Algorithm<Op>& algorithm : algorithms<Op>()) {
    if (algorithm.needs_mapped_group && !reach.is_host_wide) continue;
    if (forced == algorithm.id) return algorithm.id;
    if (forced) applicable.push_back(algorithm.id);
    const double us = reach.model.estimate_us(algorithm.cost(call.message_bytes(), reach.ranks));
    const bool is_better = reach.is_host_wide ? !best : (!best || us < best_us);
    if (!is_better) continue;
    best = algorithm.id;
    best_us = us;
  }
  if (forced)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("algorithm '{}' cannot run {} over this transport; choose one of: {}",
                            to_string(*forced), to_string(call.op), choices(applicable)));
  return *best;
}

}  // namespace

AlgorithmId select_algorithm(const Call& call, const Reach& reach,
                             std::optional<AlgorithmId> forced_for_all) {
  const std::optional<AlgorithmId> forced = call.forced ? call.forced : forced_for_all;
  const bool slots_apply = reach.is_host_wide && slot_bytes(call) <= reach.slots.most_bytes(call.op);
  if (!forced && slots_apply) return AlgorithmId::one_shot;
  if (forced == AlgorithmId::one_shot && fits_arrival_slots(call, *forced, reach.is_host_wide))
    return *forced;
  switch (call.op) {
    case Operator::barrier: return choose<Barrier>(call, reach, forced);
    case Operator::broadcast: return choose<Broadcast>(call, reach, forced);
    case Operator::all_reduce: return choose<AllReduce>(call, reach, forced);
    case Operator::all_gather: return choose<AllGather>(call, reach, forced);
    case Operator::reduce_scatter: return choose<ReduceScatter>(call, reach, forced);
  }
  throw Error(ErrorKind::Internal, "an operator without algorithms");
}

bool fits_arrival_slots(const Call& call, AlgorithmId chosen, bool is_host_wide) noexcept {
  return chosen == AlgorithmId::one_shot && is_host_wide && slot_bytes(call) <= shm::kSlotPayloadBytes;
}

}  // namespace cohort
