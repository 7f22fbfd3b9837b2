// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/collectives/call/function_reduction.h>
#include <cohort/collectives/call/tensor_call.h>
#include <cohort/collectives/call/tensor_plan.h>
#include <cohort/collectives/job/communicator_options.h>
#include <cohort/collectives/selection/choice_memo.h>
#include <cohort/collectives/selection/explanation.h>
#include <cohort/collectives/selection/forced_algorithms.h>
#include <cohort/collectives/selection/selection.h>
#include <cohort/engine/immovable.h>
#include <cohort/net/membership.h>

#include <limits>

namespace cohort {

/// Which algorithm runs a call of a communicator: the one that the call or the options name, else the best by
/// what is known of how the ranks reach each other. Equal on all ranks, who know the same.
///
/// Threads: the engine's. Lifetime: the communicator's; calls point to its algorithms.
class Choices : Immovable {
 public:
  /// Throws InvalidArgument for an algorithm that there is not.
  Choices(const CommunicatorOptions& options, const Membership& membership);
  static void check(const CommunicatorOptions& options);

  [[nodiscard]] const AlgorithmTable& algorithms() const noexcept { return algorithms_; }
  /// What calls promise of their bits, unless they ask for another level.
  [[nodiscard]] Determinism determinism() const noexcept { return determinism_; }
  [[nodiscard]] const Reach& reach() const noexcept { return reach_; }
  /// By which a call is chosen and cut: at D1 nothing that was measured decides.
  [[nodiscard]] const Reach& reach_for(const Call& call) const noexcept {
    return call.determinism == Determinism::D1 ? unmeasured_ : reach_;
  }

  /// The algorithm for a call; `forced` by it, if not empty.
  [[nodiscard]] const AnyAlgorithm& select(const Call& call, std::string_view forced) const {
    const Forced names{forced, forced_.of(call.op)};
    const Reach& reach = reach_for(call);
    if (!names.by_call.empty() || !names.by_communicator.empty())
      return *choose_algorithm(call, reach, algorithms_, names).algorithm;
    if (const AnyAlgorithm* const small = choose_in_slots(call, reach, algorithms_)) return *small;
    if (const AnyAlgorithm* const known = chosen_.find(call)) return *known;
    const AnyAlgorithm& chosen = *choose_algorithm(call, reach, algorithms_, names).algorithm;
    chosen_.keep(call, chosen);
    return chosen;
  }
  /// `host`: this rank's plan of its own work.
  [[nodiscard]] Explanation explain(const Call& call, std::string_view forced, const HostPlan& host) const {
    return explain_choice(call, reach_for(call), algorithms_, {forced, forced_.of(call.op)}, host);
  }

  // Before a call is run: what runs it, `forced` by it if not empty. Throws InvalidArgument for what is wrong
  // with it on this rank alone.
  void choose(Call& call, std::string_view forced) const {
    call.algorithm = &select(call, forced);
    call.chosen_until = end_;
    call.is_algorithm_forced = !forced.empty();
    if (!call.blocks.empty() && !call.algorithm->keeps_to_blocks()) [[unlikely]]
      refuse_blocks(call);
  }
  void choose(TensorCall& call, std::string_view forced);
  void choose(FunctionCall& call, std::string_view forced) const;
  // At first, and anew for another level than the communicator's.
  void choose_first(Call& call) const {
    call.ask_for(determinism_);
    choose(call, {});
  }
  void choose_first(TensorCall& call) {
    call.determinism = determinism_;
    choose(call, {});
  }
  void choose_first(FunctionCall& call) const { choose(call, {}); }
  void determine(Call& call, Determinism level) const {
    call.ask_for(level);
    choose(call, name_forced_by(call));
  }
  void determine(TensorCall& call, Determinism level) {
    call.determinism = level;
    choose(call, std::string_view(call.algorithm));
  }
  void determine(FunctionCall&, Determinism) const noexcept {}  // by rank at every level
  /// Empty: none.
  [[nodiscard]] static std::string_view name_forced_by(const Call& call) noexcept {
    return call.is_algorithm_forced ? call.algorithm->name() : std::string_view();
  }
  /// As the call runs: it may have been chosen before the last time that ranks measured.
  void renew(Call& call) const {
    if (call.chosen_until == end_) [[likely]]
      return;
    choose(call, name_forced_by(call));
  }

  /// The message up to which choices hold: then all ranks look whether to measure again.
  [[nodiscard]] std::uint64_t end() const noexcept { return end_; }
  void set_end(std::uint64_t sequence) noexcept { end_ = sequence; }
  /// What is found by measuring is written there; then forget_chosen().
  [[nodiscard]] Reach& measured_reach() noexcept { return reach_; }
  void forget_chosen() noexcept { chosen_ = {}; }
  /// Once ranks have measured as they join: what D1 goes by is derived from what is known then.
  void joined();

 private:
  [[noreturn, gnu::cold]] static void refuse_blocks(const Call& call);

  const Membership& membership_;
  const AlgorithmTable algorithms_;
  const ForcedAlgorithms forced_;
  const Determinism determinism_;
  Reach reach_;
  Reach unmeasured_;           ///< the same as if nothing had been measured
  mutable ChoiceMemo chosen_;  ///< by what reach_ is now
  std::uint64_t end_ = std::numeric_limits<std::uint64_t>::max();
  TensorPlan asked_tensors_;  ///< of the call that is being made
};

}  // namespace cohort
