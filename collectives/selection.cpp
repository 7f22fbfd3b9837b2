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
bool applies(const Algorithm<Op>& algorithm, const Reach& reach) {
  return reach.is_host_wide || !algorithm.needs_mapped_group;
}

template <class Op>
double estimate_us(const Algorithm<Op>& algorithm, const Call& call, const Reach& reach) {
  const std::size_t piece = piece_bytes(algorithm, call, reach);
  const double runs = piece == 0 ? 1 : static_cast<double>(call.message_bytes()) / static_cast<double>(piece);
  return runs * reach.model.estimate_us(algorithm.cost(piece, reach.ranks));
}

/// On shared memory the first that applies, over TCP the cheapest.
struct Cheapest {
  const Call& call;
  const Reach& reach;

  template <class Op>
  AlgorithmId operator()(std::span<const Algorithm<Op>> table) const {
    const Algorithm<Op>* best = nullptr;
    double best_us = 0;
    for (const Algorithm<Op>& algorithm : table) {
      if (!applies(algorithm, reach)) continue;
      if (reach.is_host_wide) return algorithm.id;
      const double us = estimate_us(algorithm, call, reach);
      if (best != nullptr && us >= best_us) continue;
      best = &algorithm;
      best_us = us;
    }
    return best->id;
  }
};

/// Those that can run the call.
struct Applicable {
  const Reach& reach;

  template <class Op>
  std::vector<AlgorithmId> operator()(std::span<const Algorithm<Op>> table) const {
    std::vector<AlgorithmId> ids;
    for (const Algorithm<Op>& algorithm : table)
      if (applies(algorithm, reach)) ids.push_back(algorithm.id);
    return ids;
  }
};

/// Whether one of them is the one asked for.
struct Has {
  AlgorithmId id;
  const Reach& reach;

  template <class Op>
  bool operator()(std::span<const Algorithm<Op>> table) const {
    return std::any_of(table.begin(), table.end(), [&](const Algorithm<Op>& algorithm) {
      return algorithm.id == id && applies(algorithm, reach);
    });
  }
};

template <class Question>
auto ask_table(Operator op, const Question& question) {
  switch (op) {
    case Operator::barrier: return question(algorithms<Barrier>());
    case Operator::broadcast: return question(algorithms<Broadcast>());
    case Operator::all_reduce: return question(algorithms<AllReduce>());
    case Operator::all_gather: return question(algorithms<AllGather>());
    case Operator::reduce_scatter: return question(algorithms<ReduceScatter>());
  }
  throw Error(ErrorKind::Internal, "an operator without algorithms");
}

bool can_run(const Call& call, AlgorithmId id, const Reach& reach) {
  return fits_arrival_slots(call, id, reach.is_host_wide) || ask_table(call.op, Has{id, reach});
}

}  // namespace

AlgorithmId select_algorithm(const Call& call, const Reach& reach,
                             std::optional<AlgorithmId> forced_for_all) {
  if (call.forced) {
    if (can_run(call, *call.forced, reach)) return *call.forced;
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("algorithm '{}' cannot run {} over this transport; choose one of: {}",
                            to_string(*call.forced), to_string(call.op),
                            choices(ask_table(call.op, Applicable{reach}))));
  }
  if (forced_for_all && can_run(call, *forced_for_all, reach)) return *forced_for_all;
  const bool slots_apply = reach.is_host_wide && slot_bytes(call) <= reach.slots.most_bytes(call.op);
  if (slots_apply) return AlgorithmId::one_shot;
  return ask_table(call.op, Cheapest{call, reach});
}

bool fits_arrival_slots(const Call& call, AlgorithmId chosen, bool is_host_wide) noexcept {
  return chosen == AlgorithmId::one_shot && is_host_wide && slot_bytes(call) <= shm::kSlotPayloadBytes;
}

}  // namespace cohort
