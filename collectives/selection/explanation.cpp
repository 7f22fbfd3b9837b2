// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/explanation.h>

#include <cohort/collectives/selection/call_plan.h>

#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

/// What is asked: which of these algorithms runs this call here.
struct Question {
  const Call& call;
  const Reach& reach;
  const AlgorithmTable& algorithms;
};

/// "; measured for this size: 3.1 us in slots, 4.0 us with direct", or that nothing was.
std::string measured_text(const Question& question) {
  const auto& [call, reach, algorithms] = question;
  if (reach.slots.measured().empty()) return " (as long as nothing is measured)";
  const std::optional<SlotTimes> times = reach.slots.times_of(call.op, call.announced_bytes);
  const AnyAlgorithm* const other = algorithms.ways_on_host(call.op).on_mapped_memory;
  if (!times || other == nullptr) return "";
  return fmt::format("; measured for this size: {:.2f} us in slots, {:.2f} us with {}", times->slots_us,
                     times->direct_us, other->name());
}

std::string slots_reason(const Question& question) {
  const auto& [call, reach, algorithms] = question;
  if (!call.op->has_data) return "a barrier is over when all have met in the arrival slots";
  return fmt::format("{} B per rank travel in the arrival slots, which are faster up to {}{}",
                     call.announced_bytes, reach.slots.most_bytes(call.op), measured_text(question));
}

std::string mapped_reason(const Question& question, std::string_view chosen) {
  const auto& [call, reach, algorithms] = question;
  return fmt::format(
      "{} B per rank, and arrival slots are faster only up to {}{}; {} comes first where all ranks map each "
      "other's memory",
      call.announced_bytes, reach.slots.most_bytes(call.op), measured_text(question), chosen);
}

/// Why it is the one of those that the model estimates, where it is not the least.
std::string_view estimated_reason(Basis basis, bool is_least) {
  if (is_least) return "least estimate";
  return basis == Basis::neighbours ? "from neighbour to neighbour, of the least estimates between hosts"
                                    : "the fewest rounds of the least estimates";
}

std::string cheapest_reason(const Explanation& explanation) {
  const Candidate* second = nullptr;
  for (const Explanation::Line& line : explanation.candidates) {
    const Candidate& candidate = line.candidate;
    if (!candidate.estimate_us || candidate.algorithm == explanation.chosen) continue;
    if (second == nullptr || *candidate.estimate_us < *second->estimate_us) second = &candidate;
  }
  const bool is_known = explanation.estimate_us && second != nullptr;
  const bool is_least = !is_known || !is_less(*second->estimate_us, *explanation.estimate_us);
  std::string text(estimated_reason(explanation.basis, is_least));
  if (is_known)
    text += fmt::format("; {} is {} with {:.1f} us", is_least ? "next" : "the least", second->algorithm,
                        *second->estimate_us);
  return text;
}

std::string words_of_basis(const Explanation& explanation, const Question& question) {
  switch (explanation.basis) {
    case Basis::alone: return "one rank alone has nobody to exchange with: its output is its input";
    case Basis::call: return "the call forces it";
    case Basis::communicator:
      return "COHORT_ALGO, or the communicator's options, force it for all calls of the operator that it can "
             "run";
    case Basis::arrival: return slots_reason(question);
    case Basis::mapped_memory: return mapped_reason(question, explanation.chosen);
    case Basis::neighbours:
    case Basis::cheapest: return cheapest_reason(explanation);
  }
  return "";
}

/// What of the choice its determinism has decided.
std::string promise_of(const Call& call) {
  if (call.determinism == Determinism::D0) return "";
  if (call.determinism == Determinism::D1) return "D1, by nothing that was measured: ";
  return fmt::format("{}, of those that combine {}: ", to_string(call.determinism), to_string(call.order()));
}

std::string reason_of(const Explanation& explanation, const Question& question,
                      std::string_view forced_by_communicator) {
  const bool is_passed_over = !forced_by_communicator.empty() && explanation.basis != Basis::communicator &&
                              explanation.basis != Basis::call && explanation.basis != Basis::alone;
  std::string text = promise_of(question.call);
  if (is_passed_over)
    text += fmt::format("{} is forced for the operator but cannot run this call; ", forced_by_communicator);
  return text + words_of_basis(explanation, question);
}

std::string note_on(const Candidate& candidate, const Explanation& explanation, const Call& call,
                    const Reach& reach) {
  if (candidate.algorithm == explanation.chosen) return "chosen";
  switch (candidate.state) {
    case Candidate::State::not_written: return fmt::format("has no schedule for {}", to_string(call.op));
    case Candidate::State::needs_one_host: return "needs memory that all ranks map: shm, on one host";
    case Candidate::State::needs_other_hosts: return fmt::format("needs {}", hosts_needed(candidate.levels));
    case Candidate::State::too_large:
      return fmt::format("possible up to {} bytes per rank", tuning::slots::kMostBytes);
    case Candidate::State::other_order:
      return fmt::format("combines {}: not {}", to_string(candidate.order), to_string(call.determinism));
    case Candidate::State::needs_one_rank:
      return reach.ranks() == 1 ? "there is nobody to exchange with" : "for a communicator of one rank";
    case Candidate::State::possible: break;
  }
  switch (explanation.basis) {
    case Basis::call:
    case Basis::communicator: return "possible; another one is forced";
    case Basis::arrival: return "possible; at this size arrival slots come first";
    case Basis::alone: return "possible";
    case Basis::mapped_memory:
      if (candidate.is_in_slots)
        return fmt::format("possible; arrival slots come first only up to {} bytes per rank",
                           reach.slots.most_bytes(call.op));
      return fmt::format("possible; not compared, since {} comes first", explanation.chosen);
    case Basis::neighbours:
    case Basis::cheapest:
      if (!candidate.cost) return "possible; runs only where it is asked for";
      if (candidate.estimate_us && explanation.estimate_us &&
          is_less(*candidate.estimate_us, *explanation.estimate_us))
        return fmt::format("possible; {} for nearly the same estimate",
                           explanation.basis == Basis::neighbours ? "more partners" : "more rounds");
      return "possible; its estimate is not lower";
  }
  return "";
}

}  // namespace

Explanation explain_choice(const Call& call, const Reach& reach, const AlgorithmTable& algorithms,
                           const Forced& forced, const HostPlan& host) {
  const Choice choice = choose_algorithm(call, reach, algorithms, forced);
  Explanation explanation;
  explanation.chosen = choice.algorithm->name();
  explanation.basis = choice.basis;
  explanation.determinism = call.determinism;
  const std::vector<Candidate> candidates = candidates_for(call, reach, algorithms);
  for (const Candidate& candidate : candidates)
    if (candidate.algorithm == explanation.chosen) explanation.estimate_us = candidate.estimate_us;
  for (const Candidate& candidate : candidates)
    explanation.candidates.push_back({candidate, note_on(candidate, explanation, call, reach)});
  explanation.reason = reason_of(explanation, {call, reach, algorithms}, forced.by_communicator);
  Call chosen = call;
  chosen.algorithm = choice.algorithm;
  explanation.way = words_of_plan(chosen, host, reach);
  return explanation;
}

}  // namespace cohort
