// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/selection.h>

#include <cohort/engine/error.h>
#include <cohort/net/host/segment.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

std::string choices(const std::vector<AlgorithmId>& ids) {
  std::string text;
  for (const AlgorithmId id : ids) text += (text.empty() ? "" : ", ") + std::string(to_string(id));
  return text;
}

template <class Op>
bool applies(const Algorithm<Op>& algorithm, const Reach& reach) {
  return reach.is_host_wide || !algorithm.needs_mapped_group;
}

/// Of all runs that the message is cut into.
template <class Op>
Cost whole_cost(const Algorithm<Op>& algorithm, const Call& call, const Reach& reach) {
  const std::size_t piece = piece_bytes(algorithm, call, reach);
  const double runs = piece == 0 ? 1 : static_cast<double>(call.message_bytes()) / static_cast<double>(piece);
  const Cost once = algorithm.cost(piece, reach.ranks);
  return {.rounds = runs * once.rounds,
          .bytes_moved = runs * once.bytes_moved,
          .bytes_reduced = runs * once.bytes_reduced,
          .messages = runs * once.messages,
          .bytes_by_all = runs * once.bytes_by_all};
}

template <class Op>
double estimate_us(const Algorithm<Op>& algorithm, const Call& call, const Reach& reach) {
  return reach.model.estimate_us(whole_cost(algorithm, call, reach));
}

/// On shared memory the first that applies, over TCP the cheapest.
struct Best {
  const Call& call;
  const Reach& reach;

  template <class Op>
  Choice operator()(std::span<const Algorithm<Op>> table) const {
    const Algorithm<Op>* best = nullptr;
    double best_us = 0;
    for (const Algorithm<Op>& algorithm : table) {
      if (!applies(algorithm, reach)) continue;
      if (reach.is_host_wide) return {algorithm.id, Basis::mapped_memory};
      const double us = estimate_us(algorithm, call, reach);
      if (best != nullptr && us >= best_us) continue;
      best = &algorithm;
      best_us = us;
    }
    return {best->id, Basis::cheapest};
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

/// What the table says of one algorithm over links and mapped memory.
struct Weigh {
  AlgorithmId id;
  const Call& call;
  const Reach& reach;

  template <class Op>
  Candidate operator()(std::span<const Algorithm<Op>> table) const {
    Candidate candidate{.algorithm = id, .state = Candidate::State::not_written};
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const Algorithm<Op>& a) { return a.id == id; });
    if (found == table.end()) return candidate;
    const Algorithm<Op>& algorithm = *found;
    candidate.cost = whole_cost(algorithm, call, reach);
    candidate.state =
        applies(algorithm, reach) ? Candidate::State::possible : Candidate::State::needs_one_host;
    if (!reach.is_host_wide && candidate.state == Candidate::State::possible)
      candidate.estimate_us = estimate_us(algorithm, call, reach);
    return candidate;
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

/// Of combine_slots(): every rank reads what it needs of each other one's slot.
Cost slots_cost(const Call& call, Rank ranks) {
  const double peers = ranks - 1.0;
  const bool takes_share = call.op == Operator::reduce_scatter;
  const bool reduces = call.op == Operator::all_reduce || takes_share;
  const auto bytes = static_cast<double>(takes_share ? call.recv_bytes : slot_bytes(call));
  Cost cost;
  cost.rounds = 1;
  cost.bytes_moved = call.op == Operator::broadcast ? bytes : bytes * peers;
  if (reduces) cost.bytes_reduced = bytes * peers;
  return cost;
}

}  // namespace

Choice choose_algorithm(const Call& call, const Reach& reach, std::optional<AlgorithmId> forced_for_all) {
  if (call.forced) {
    if (can_run(call, *call.forced, reach)) return {*call.forced, Basis::call};
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("algorithm '{}' cannot run {} over this transport; choose one of: {}",
                            to_string(*call.forced), to_string(call.op),
                            choices(ask_table(call.op, Applicable{reach}))));
  }
  if (forced_for_all && can_run(call, *forced_for_all, reach)) return {*forced_for_all, Basis::communicator};
  const bool slots_apply = reach.is_host_wide && slot_bytes(call) <= reach.slots.most_bytes(call.op);
  if (slots_apply) return {AlgorithmId::one_shot, Basis::arrival_slots};
  return ask_table(call.op, Best{call, reach});
}

bool fits_arrival_slots(const Call& call, AlgorithmId chosen, bool is_host_wide) noexcept {
  return chosen == AlgorithmId::one_shot && is_host_wide && slot_bytes(call) <= host::kSlotPayloadBytes;
}

std::vector<Candidate> candidates_for(const Call& call, const Reach& reach) {
  std::vector<Candidate> candidates;
  const std::optional<SlotTimes> measured =
      reach.is_host_wide ? reach.slots.times_of(call.op, slot_bytes(call)) : std::nullopt;
  for (std::size_t i = 0; i < kAlgorithms; ++i) {
    const auto id = static_cast<AlgorithmId>(i);
    Candidate candidate = ask_table(call.op, Weigh{id, call, reach});
    candidate.is_in_slots = fits_arrival_slots(call, id, reach.is_host_wide);
    if (candidate.is_in_slots) {
      candidate.state = Candidate::State::possible;
      candidate.cost = slots_cost(call, reach.ranks);
    }
    if (measured && candidate.is_in_slots) candidate.estimate_us = measured->slots_us;
    if (measured && id == AlgorithmId::direct) candidate.estimate_us = measured->direct_us;
    candidates.push_back(candidate);
  }
  return candidates;
}

}  // namespace cohort
