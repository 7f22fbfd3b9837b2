// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/call/pieces.h>
#include <cohort/collectives/selection/link_speed.h>
#include <cohort/collectives/selection/pull_crossover.h>
#include <cohort/collectives/selection/slot_crossover.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <string_view>

namespace cohort {

/// What a schedule takes over TCP on hosts of a certain speed; the same numbers on all ranks, since all must
/// come to the same choice.
///
/// Two things add up: the way from the first message to the last, each of which is sent and taken before the
/// next one starts, and the work of all messages and bytes at both their ends, over the cores that do it.
/// Against measured times of five algorithms of all_reduce, 4 and 8 ranks on 2 cores, 8 B to 1 MiB: of 96
/// pairs that differ by more than a fifth it puts 93 in order, and what it takes is at most 22 % above the
/// best.
class CostModel {
 public:
  CostModel() = default;
  CostModel(const LinkSpeed& speed, Rank ranks) noexcept
      : speed_(speed),
        cores_(ranks / std::max(1.0, speed.ranks_per_core)),
        work_us_per_message_(speed.message_us * (speed.ranks_per_core > 1 ? kWorkOfSharedCore : 1.0)) {}

  [[nodiscard]] double estimate_us(const Cost& cost) const noexcept {
    // Bytes pass both ends of a link at the same time, so that they take half their work on the way.
    const double way_us = speed_.message_us * cost.rounds + speed_.byte_us * cost.bytes_moved / 2 +
                          speed_.combine_us * cost.bytes_reduced;
    const double work_us = work_us_per_message_ * cost.messages + speed_.byte_us * cost.bytes_by_all;
    return way_us + work_us / cores_;
  }
  [[nodiscard]] const LinkSpeed& speed() const noexcept { return speed_; }

  /// One number of the model, for people: "message" 5 "us".
  struct Constant {
    std::string_view name;
    double value;
    std::string_view unit;
  };
  [[nodiscard]] std::array<Constant, 4> constants() const noexcept {
    return {{{"message", speed_.message_us, "us"},
             {"byte", speed_.byte_us * 1e3, "ns"},
             {"byte combined", speed_.combine_us * 1e3, "ns"},
             {"ranks per core", speed_.ranks_per_core, ""}}};
  }

 private:
  /// Where ranks share cores, a message also costs a change from one to another: 2 to 3 us beside 5.
  static constexpr double kWorkOfSharedCore = 1.5;

  LinkSpeed speed_;
  double cores_ = 1;
  double work_us_per_message_ = 0;
};

/// How the ranks of a communicator reach each other, as selection sees it.
struct Reach {
  bool is_host_wide = false;  ///< all ranks on this host, over shared memory
  Rank ranks = 1;
  std::size_t buffer_bytes = 0;  ///< of each CCL buffer
  CostModel model{};
  SlotCrossover slots{};
  PullCrossover pull{};
};

/// How much of a message one run of the schedule takes. Over TCP no more than a core's cache holds on all
/// ranks together: 16 MiB on 4 ranks of 2 cores took 28 ms in pieces of 4 MiB and 14 ms in pieces of 1 MiB.
template <class Op>
[[nodiscard]] std::size_t piece_bytes(const Algorithm<Op>& algorithm, const Call& call, const Reach& reach) {
  constexpr bool counts_one_rank = std::same_as<Op, AllGather> || std::same_as<Op, ReduceScatter>;
  const std::size_t in_cache = reach.model.speed().cache_bytes / (counts_one_rank ? reach.ranks : 1);
  std::size_t largest = algorithm.largest_piece(reach.buffer_bytes, reach.ranks);
  if (!reach.is_host_wide) largest = std::min(largest, in_cache);
  return piece_bytes(call.message_bytes(), size_bytes(call.type), largest);
}

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

/// The algorithm for a call, and what decided: the one that the call forces, else that of COHORT_ALGO if it
/// can run the call, else the cheapest that applies here. Throws InvalidArgument when the one that the call
/// forces does not exist for the operator or cannot run here, naming those that can.
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
  std::optional<Cost> cost{};           ///< of the whole message, counted from its schedule
  std::optional<double> estimate_us{};  ///< of the whole call: by the model over links, measured in slots
};

/// Every algorithm of the library beside the call, with the numbers that choose_algorithm() compares. In the
/// order of AlgorithmId.
[[nodiscard]] std::vector<Candidate> candidates_for(const Call& call, const Reach& reach);

}  // namespace cohort
