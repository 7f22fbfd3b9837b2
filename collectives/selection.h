// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call.h>
#include <cohort/collectives/slot_crossover.h>

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
};

/// How the ranks of a communicator reach each other, as selection sees it.
struct Reach {
  bool is_host_wide = false;  ///< all ranks on this host, over shared memory
  Rank ranks = 1;
  CostModel model{};
  SlotCrossover slots{};
};

/// The algorithm for a call: the forced one (of the call, else of COHORT_ALGO) or the cheapest that applies
/// here. Throws InvalidArgument when the forced one does not exist for the operator or cannot run here,
/// naming those that can.
[[nodiscard]] AlgorithmId select_algorithm(const Call& call, const Reach& reach,
                                           std::optional<AlgorithmId> forced_for_all);

/// Whether that choice is carried by the arrival slots of shared memory: one_shot with data that fits in
/// them.
[[nodiscard]] bool fits_arrival_slots(const Call& call, AlgorithmId chosen, bool is_host_wide) noexcept;

}  // namespace cohort
