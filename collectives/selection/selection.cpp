// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/selection.h>

#include <cohort/collectives/schedules/piece_over_links.h>
#include <cohort/engine/error.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

using State = Candidate::State;

State state_of(const AnyAlgorithm& algorithm, const Call& call, const Reach& reach) {
  const bool is_alone = algorithm.scope() == Scope::self;
  if (reach.ranks() == 1) return is_alone ? State::possible : State::needs_one_rank;
  if (is_alone) return State::needs_one_rank;
  if (algorithm.scope() == Scope::node && !reach.is_host_wide) return State::needs_one_host;
  if (!algorithm.fits(reach.hosts)) return State::needs_other_hosts;
  const bool fits =
      algorithm.announces() != Announces::data || call.announced_bytes <= tuning::slots::kMostBytes;
  if (!fits) return State::too_large;
  return algorithm.order() >= call.order() ? State::possible : State::other_order;
}

bool can_run(const AnyAlgorithm* algorithm, const Call& call, const Reach& reach) {
  return algorithm != nullptr && state_of(*algorithm, call, reach) == State::possible;
}

std::string choices(const Call& call, const Reach& reach, const AlgorithmTable& algorithms) {
  std::string text;
  for (const AnyAlgorithm& algorithm : algorithms.of(call.op))
    if (can_run(&algorithm, call, reach)) text += (text.empty() ? "" : ", ") + std::string(algorithm.name());
  return text;
}

std::string refusal_of(std::string_view name, const AnyAlgorithm* algorithm, const Call& call,
                       const Reach& reach, const AlgorithmTable& algorithms) {
  const State state = algorithm == nullptr ? State::not_written : state_of(*algorithm, call, reach);
  std::string why = fmt::format("cannot run this {} over this transport", to_string(call.op));
  if (algorithm == nullptr)
    why = fmt::format("is none that this rank has for {} (one of your own is registered on every rank)",
                      to_string(call.op));
  if (state == State::needs_other_hosts) why = fmt::format("needs {}", hosts_needed(algorithm->levels()));
  if (state == State::too_large)
    why = fmt::format(
        "takes up to {} bytes of a rank, and this {} gives {}: leave the choice to the library above",
        tuning::slots::kMostBytes, to_string(call.op), call.announced_bytes);
  if (state == State::other_order)
    why = fmt::format("combines {}, which does not give {} of {}", to_string(algorithm->order()),
                      to_string(call.determinism), to_string(call.type));
  return fmt::format("algorithm '{}' {}; choose one of: {}", name, why, choices(call, reach, algorithms));
}

/// Of all runs that the message is cut into.
Cost whole_cost(const AnyAlgorithm& algorithm, const Call& call, const Reach& reach) {
  const std::size_t piece = piece_bytes(algorithm, call, reach);
  const double runs = piece == 0 ? 1 : static_cast<double>(call.message_bytes()) / static_cast<double>(piece);
  return algorithm.cost(piece, reach.hosts).times(runs);
}

double estimate_us(const AnyAlgorithm& algorithm, const Call& call, const Reach& reach) {
  return reach.model.estimate_us(whole_cost(algorithm, call, reach));
}

Choice choose_on_host(const Call& call, const Reach& reach, const AlgorithmTable& algorithms) {
  const AnyAlgorithm* const in_slots = choose_in_slots(call, reach, algorithms);
  if (in_slots != nullptr) return {in_slots, Basis::arrival};
  return {algorithms.ways_on_host(call.op, call.order()).on_mapped_memory, Basis::mapped_memory};
}

/// `cheapest`, or of those that are nearly as cheap the one of fewest rounds: where ranks share cores, if it
/// takes the message in pieces.
const AnyAlgorithm* fewest_rounds(const AnyAlgorithm& cheapest, double least_us, const Call& call,
                                  const Reach& reach, const AlgorithmTable& algorithms) {
  const AnyAlgorithm* best = &cheapest;
  double rounds = whole_cost(cheapest, call, reach).rounds;
  const bool has_core_each = reach.model.has_core_each();
  const double is_nearly = has_core_each ? tuning::choosing::kNearly : tuning::choosing::kNearlyOnSharedCores;
  for (const AnyAlgorithm& algorithm : algorithms.of(call.op)) {
    if (!algorithm.has_cost() || !can_run(&algorithm, call, reach)) continue;
    if (!has_core_each && piece_bytes(algorithm, call, reach) >= call.message_bytes()) continue;
    const Cost cost = whole_cost(algorithm, call, reach);
    if (cost.rounds >= rounds || is_nearly * reach.model.estimate_us(cost) > least_us) continue;
    best = &algorithm;
    rounds = cost.rounds;
  }
  return best;
}

struct Estimated {
  const AnyAlgorithm* algorithm = nullptr;
  double us = 0;
};

/// The first that has the least estimate, of those that count.
template <class Counts>
Estimated cheapest(const Call& call, const Reach& reach, const AlgorithmTable& algorithms, Counts counts) {
  Estimated best;
  for (const AnyAlgorithm& algorithm : algorithms.of(call.op)) {
    if (!algorithm.has_cost() || !can_run(&algorithm, call, reach) || !counts(algorithm)) continue;
    const double us = estimate_us(algorithm, call, reach);
    if (best.algorithm == nullptr || is_less(us, best.us)) best = {&algorithm, us};
  }
  return best;
}

Choice choose_over_links(const Call& call, const Reach& reach, const AlgorithmTable& algorithms) {
  const Estimated best = cheapest(call, reach, algorithms, [](const AnyAlgorithm&) { return true; });
  if (best.algorithm == nullptr) return {nullptr, Basis::cheapest};
  const NetworkSpeed& network = reach.model.network();
  if (network.is_between_hosts() && network.is_tcp && call.op->flow == Flow::everywhere) {
    const auto keeps_to_neighbours = [&](const AnyAlgorithm& algorithm) {
      return algorithm.needs(piece_bytes(algorithm, call, reach), reach.hosts).keeps_to_neighbours();
    };
    const Estimated ring = cheapest(call, reach, algorithms, keeps_to_neighbours);
    if (ring.algorithm != nullptr && tuning::choosing::kNearlyToNeighbours * ring.us <= best.us)
      return {ring.algorithm, Basis::neighbours};
  }
  return {fewest_rounds(*best.algorithm, best.us, call, reach, algorithms), Basis::cheapest};
}

Choice choose(const Call& call, const Reach& reach, const AlgorithmTable& algorithms) {
  if (reach.is_host_wide) {
    const Choice choice = choose_on_host(call, reach, algorithms);
    if (choice.algorithm != nullptr) return choice;
  }
  return choose_over_links(call, reach, algorithms);
}

/// Where a name is asked for, or there is nobody else.
Choice choose_forced_or_alone(const Call& call, const Reach& reach, const AlgorithmTable& algorithms,
                              const Forced& forced) {
  const AnyAlgorithm* const by_call =
      forced.by_call.empty() ? nullptr : algorithms.find(call.op, forced.by_call);
  const bool is_refused = !forced.by_call.empty() && by_call == nullptr;
  if (reach.ranks() == 1 && !is_refused) {
    for (const AnyAlgorithm& algorithm : algorithms.of(call.op))
      if (can_run(&algorithm, call, reach)) return {&algorithm, Basis::alone};
  }
  if (!forced.by_call.empty()) {
    if (can_run(by_call, call, reach)) return {by_call, Basis::call};
    throw Error(ErrorKind::InvalidArgument, refusal_of(forced.by_call, by_call, call, reach, algorithms));
  }
  const AnyAlgorithm* const by_communicator =
      forced.by_communicator.empty() ? nullptr : algorithms.find(call.op, forced.by_communicator);
  if (can_run(by_communicator, call, reach)) return {by_communicator, Basis::communicator};
  return choose(call, reach, algorithms);
}

}  // namespace

std::size_t piece_bytes(const AnyAlgorithm& algorithm, const Call& call, const Reach& reach) {
  std::size_t largest = algorithm.largest_piece(reach.buffer_bytes, reach.hosts);
  if (!reach.is_host_wide && !reach.model.network().is_between_hosts())
    largest = piece_over_links(algorithm, largest, call.message_bytes(), reach.hosts,
                               reach.model.speed().cache_bytes);
  return piece_bytes(call.message_bytes(), size_bytes(call.type), largest);
}

Choice choose_algorithm(const Call& call, const Reach& reach, const AlgorithmTable& algorithms,
                        const Forced& forced) {
  const bool is_free = forced.by_call.empty() && forced.by_communicator.empty() && reach.ranks() > 1;
  return is_free ? choose(call, reach, algorithms) : choose_forced_or_alone(call, reach, algorithms, forced);
}

std::vector<Candidate> candidates_for(const Call& call, const Reach& reach,
                                      const AlgorithmTable& algorithms) {
  std::vector<Candidate> candidates;
  const HostWays ways = algorithms.ways_on_host(call.op);
  const std::optional<SlotTimes> measured =
      reach.is_host_wide ? reach.slots.times_of(call.op, call.announced_bytes) : std::nullopt;
  for (const std::string_view name : algorithms.names()) {
    Candidate candidate{.algorithm = name, .state = State::not_written};
    const AnyAlgorithm* const algorithm = algorithms.find(call.op, name);
    const bool is_beside = algorithm != nullptr && algorithm->scope() == Scope::self && reach.ranks() > 1;
    if (is_beside) continue;
    if (algorithm != nullptr) {
      candidate.state = state_of(*algorithm, call, reach);
      candidate.levels = algorithm->levels();
      candidate.order = algorithm->order();
      candidate.is_in_slots = algorithm->announces() == Announces::data;
      const bool has_cost = algorithm->has_cost() && candidate.state != State::needs_one_rank &&
                            candidate.state != State::needs_other_hosts;
      if (has_cost) candidate.cost = whole_cost(*algorithm, call, reach);
      const bool is_possible = candidate.state == State::possible;
      if (measured && is_possible && algorithm == ways.in_slots) candidate.estimate_us = measured->slots_us;
      if (measured && algorithm == ways.on_mapped_memory) candidate.estimate_us = measured->direct_us;
      if (!reach.is_host_wide && is_possible && candidate.cost)
        candidate.estimate_us = reach.model.estimate_us(*candidate.cost);
    }
    candidates.push_back(candidate);
  }
  return candidates;
}

}  // namespace cohort
