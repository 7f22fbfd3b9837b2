// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call.h>
#include <cohort/collectives/slot_crossover.h>

#include <array>
#include <string_view>

namespace cohort {

/// What a path costs: a message's latency, a byte moved, a byte combined. Rank 0's numbers hold for all
/// ranks, since all must come to the same choice.
struct CostModel {
  double alpha_us = 0;
  double beta_us_per_byte = 0;
  double gamma_us_per_byte = 0;

  [[nodiscard]] double estimate_us(const Cost& cost) const noexcept {
    return alpha_us * cost.rounds + beta_us_per_byte * cost.bytes_moved +
           gamma_us_per_byte * cost.bytes_reduced;
  }

  /// One number of the model, for people: "message" 5 "us".
  struct Constant {
    std::string_view name;
    double value;
    std::string_view unit;
  };
  [[nodiscard]] std::array<Constant, 3> constants() const noexcept {
    return {{{"message", alpha_us, "us"},
             {"byte moved", beta_us_per_byte * 1e3, "ns"},
             {"byte combined", gamma_us_per_byte * 1e3, "ns"}}};
  }
};

/// How the ranks of a communicator reach each other, as selection sees it.
struct Reach {
  bool is_host_wide = false;  ///< all ranks on this host, over shared memory
  Rank ranks = 1;
  CostModel model{};
  SlotCrossover slots{};
};

/// What decided on an algorithm.
enum class Basis : std::uint8_t {
  call,           ///< the call forces it
  communicator,   ///< COHORT_ALGO or CommunicatorOptions force it
  arrival_slots,  ///< so little data travels as ranks meet
  mapped_memory,  ///< the first that runs where all ranks map each other's memory
  cheapest,       ///< the least estimate of the model, over links
};

struct Choice {
  AlgorithmId algorithm = AlgorithmId::one_shot;
  Basis basis = Basis::call;
};

/// The algorithm for a call, and what decided: the forced one (of the call, else of COHORT_ALGO) or the
/// cheapest that applies here. Throws InvalidArgument when the forced one does not exist for the operator or
/// cannot run here, naming those that can.
[[nodiscard]] Choice choose_algorithm(const Call& call, const Reach& reach,
                                      std::optional<AlgorithmId> forced_for_all);

[[nodiscard]] inline AlgorithmId select_algorithm(const Call& call, const Reach& reach,
                                                  std::optional<AlgorithmId> forced_for_all) {
  return choose_algorithm(call, reach, forced_for_all).algorithm;
}

/// Whether that choice is carried by the arrival slots of shared memory: one_shot with data that fits in
/// them.
[[nodiscard]] bool fits_arrival_slots(const Call& call, AlgorithmId chosen, bool is_host_wide) noexcept;

/// Data that one rank puts into its arrival slot.
[[nodiscard]] inline std::size_t slot_bytes(const Call& call) noexcept {
  return call.op == Operator::barrier ? 0 : call.send_bytes;
}

/// One algorithm beside a call.
struct Candidate {
  enum class State : std::uint8_t {
    possible,        ///< can run the call
    not_written,     ///< has no schedule for the operator
    needs_one_host,  ///< runs on mapped memory only
  };

  AlgorithmId algorithm = AlgorithmId::one_shot;
  State state = State::possible;
  bool is_in_slots = false;             ///< the arrival slots carry it
  std::optional<Cost> cost{};           ///< as counted from its schedule, where there is one
  std::optional<double> estimate_us{};  ///< of the whole call: by the model over links, measured in slots
};

/// Every algorithm of the library beside the call, with the numbers that choose_algorithm() compares. In the
/// order of AlgorithmId.
[[nodiscard]] std::vector<Candidate> candidates_for(const Call& call, const Reach& reach);

}  // namespace cohort
