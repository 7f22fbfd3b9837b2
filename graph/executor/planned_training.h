// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/graph/executor/executor.h>
#include <cohort/graph/executor/measured_cost.h>
#include <cohort/graph/executor/ready_times.h>
#include <cohort/graph/passes/insert_all_reduce.h>

#include <string>
#include <vector>

namespace cohort::graph {

/// When a plan is made anew.
struct ReplanRule {
  unsigned skipped_steps = 1;   ///< first ones, of a cold start
  unsigned profile_steps = 10;  ///< whose median is a ready time
  double tolerance = 0.1;       ///< between predicted and measured end of communication
  unsigned patience = 20;       ///< so many steps in a row have to be beyond it
  unsigned most_rounds = 3;     ///< of plans that follow each other
};

/// Runs steps of a graph with the plan that fits what is measured.
///
/// First gradients are reduced after backward, so that ready times are those of compute alone. From these,
/// the latest rank's, and a measured cost a plan is made, the same on all ranks; once it has run, another one
/// from the ready times beside communication, until it stays the same, at most `most_rounds`. From then on
/// predicted and measured ends are compared: where they differ on a rank for `patience` steps, all ranks
/// begin anew. What the last round leaves as a difference becomes what is expected.
///
/// Threads and lifetime: as of Executor.
class PlannedTraining {
 public:
  enum class Stage : std::uint8_t { profiling, refining, settled };

  /// `graph` has no collectives yet. `insert.cost` is measured anew, unless `is_cost_given`.
  PlannedTraining(Communicator& communicator, Graph graph, const Kernels& kernels, InsertOptions insert = {},
                  ReplanRule rule = {}, ExecutorOptions options = {}, bool is_cost_given = false);

  /// Measures costs and begins to profile. A collective, before the first step.
  [[nodiscard]] Task<> prepare();
  /// Of last_graph(): a new plan may be there once it is over.
  [[nodiscard]] Task<Timeline> run_step();
  [[nodiscard]] const Graph& last_graph() const noexcept { return ran_; }
  [[nodiscard]] const Summary& last_summary() const noexcept { return last_; }

  [[nodiscard]] Stage stage() const noexcept { return stage_; }
  /// How many plans have been made.
  [[nodiscard]] unsigned plans() const noexcept { return plans_; }
  [[nodiscard]] const Insertion& insertion() const noexcept { return insertion_; }
  [[nodiscard]] const Executor& executor() const noexcept { return executor_; }
  /// The plan, what it is predicted and measured to come to, the bound, and other rules.
  [[nodiscard]] std::string explain() const;

 private:
  [[nodiscard]] Task<> profile();
  [[nodiscard]] Task<> plan_anew();
  [[nodiscard]] Task<> watch(double measured_end_us);
  void begin_stage(Stage stage);
  [[nodiscard]] Task<> run_by(const Insertion& insertion);

  Communicator& communicator_;
  Graph graph_;
  InsertOptions insert_;
  ReplanRule rule_;
  bool is_cost_given_;
  Insertion insertion_;
  Executor executor_;
  ReadyTimes ready_times_;
  Stage stage_ = Stage::profiling;
  unsigned steps_ = 0;   ///< of this stage
  unsigned rounds_ = 0;  ///< of plans since the last profile
  unsigned plans_ = 0;
  unsigned steps_beyond_ = 0;
  double expected_end_us_ = 0;
  std::vector<double> ends_us_;  ///< of this stage
  Graph ran_;
  bool is_new_graph_ = true;  ///< that has not run
  Summary last_;
};

}  // namespace cohort::graph
