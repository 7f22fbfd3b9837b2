// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/engine/tuning.h>

#include <optional>
#include <string_view>
#include <vector>

namespace cohort {

/// How much of a message one run of the schedule takes. Over TCP inside of one host no more than a core's
/// cache holds on all ranks together, or of each block for a root, lest the bytes
/// on their way come from memory.
[[nodiscard]] std::size_t piece_bytes(const AnyAlgorithm& algorithm, const Call& call, const Reach& reach);

/// Names that are asked for; empty where none is.
struct Forced {
  std::string_view by_call{};
  std::string_view by_communicator{};  ///< for the call's operator: COHORT_ALGO, or the options
};

/// What decided on an algorithm.
enum class Basis : std::uint8_t {
  call,           ///< the call forces it
  communicator,   ///< COHORT_ALGO or CommunicatorOptions force it
  alone,          ///< there is one rank
  arrival,        ///< so little data travels as ranks meet
  mapped_memory,  ///< the first that runs where all ranks map each other's memory
  neighbours,     ///< nearly the least estimate of the model, from neighbour to neighbour, between hosts
  cheapest,       ///< the least estimate of the model, or nearly so in fewer rounds, over links
};

struct Choice {
  const AnyAlgorithm* algorithm = nullptr;
  Basis basis = Basis::call;
};

/// The algorithm for a small call between the ranks of one host, where none is forced: the one whose data
/// travels as they meet. Null where the call is not so small. Apart, since such a call has no time for more.
[[nodiscard]] inline const AnyAlgorithm* choose_in_slots(const Call& call, const Reach& reach,
                                                         const AlgorithmTable& algorithms) noexcept {
  const bool is_small = call.announced_bytes <= reach.slots.most_bytes(call.op);
  return reach.is_host_wide && reach.ranks() > 1 && is_small
             ? algorithms.ways_on_host(call.op, call.order()).in_slots
             : nullptr;
}

/// The algorithm for a call, and what decided: the one that the call forces, else the one that is forced for
/// all if it can run the call, else the cheapest that applies here, or nearly so in fewer rounds.
///
/// Throws InvalidArgument when the one that the call forces does not exist for the operator or cannot run
/// here, naming those that can.
[[nodiscard]] Choice choose_algorithm(const Call& call, const Reach& reach, const AlgorithmTable& algorithms,
                                      const Forced& forced);

[[nodiscard]] constexpr bool is_less(double us, double than_us) noexcept {
  return us < tuning::choosing::kLess * than_us;
}

/// One algorithm beside a call.
struct Candidate {
  enum class State : std::uint8_t {
    possible,           ///< can run the call
    not_written,        ///< has no schedule for the operator
    needs_one_host,     ///< runs on mapped memory only
    needs_other_hosts,  ///< see hosts_needed()
    too_large,          ///< the data does not fit a slot
    needs_one_rank,     ///< runs in a communicator of one only
    other_order,        ///< combines in another order than the determinism asked for
  };

  std::string_view algorithm;
  State state = State::possible;
  Levels levels = Levels::none;
  ReductionOrder order = ReductionOrder::fixed;
  bool is_in_slots = false;             ///< data travels as ranks meet
  std::optional<Cost> cost{};           ///< of the whole message, counted from its schedule
  std::optional<double> estimate_us{};  ///< of the whole call: by the model over links, measured on one host
};

/// Every algorithm that the table names beside the call, with the numbers that choose_algorithm() compares.
[[nodiscard]] std::vector<Candidate> candidates_for(const Call& call, const Reach& reach,
                                                    const AlgorithmTable& algorithms);

}  // namespace cohort
