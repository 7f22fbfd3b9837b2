// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/planned_training.h>

#include <cohort/graph/planner/explain.h>
#include <cohort/graph/planner/rules.h>
#include <cohort/graph/timeline/median.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort::graph {
namespace {

Insertion synchronous(const Graph& graph, InsertOptions options) {
  options.strategy = Strategy::synchronous;
  return insert_all_reduce(graph, options);
}

std::vector<std::string> names_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const Item& item : plan.items)
    if (item.offset == 0) names.push_back(item.name);
  return names;
}

}  // namespace

PlannedTraining::PlannedTraining(Communicator& communicator, Graph graph, const Kernels& kernels,
                                 InsertOptions insert, ReplanRule rule, ExecutorOptions options,
                                 bool is_cost_given)
    : communicator_(communicator),
      graph_(std::move(graph)),
      insert_(std::move(insert)),
      rule_(rule),
      is_cost_given_(is_cost_given),
      insertion_(synchronous(graph_, insert_)),
      executor_(communicator, insertion_.graph, kernels, std::move(options)),
      ready_times_(names_of(insertion_.plan)) {}

void PlannedTraining::begin_stage(Stage stage) {
  stage_ = stage;
  steps_ = 0;
  steps_beyond_ = 0;
  ends_us_.clear();
  ready_times_.clear();
}

Task<> PlannedTraining::prepare() {
  rounds_ = 0;
  co_await profile();
}

Task<> PlannedTraining::profile() {
  if (!is_cost_given_) {
    const MeasureOptions usual;
    const LinearCost cost = co_await measure_cost(communicator_, usual);
    insert_.cost = Cost::of(cost);
  }
  insertion_ = synchronous(graph_, insert_);
  co_await run_by(insertion_);
  begin_stage(Stage::profiling);
}

Task<> PlannedTraining::run_by(const Insertion& insertion) {
  executor_.set_graph(insertion.graph);
  is_new_graph_ = true;
  co_await executor_.prepare();
}

Task<Timeline> PlannedTraining::run_step() {
  if (std::exchange(is_new_graph_, false)) ran_ = executor_.graph();
  Timeline timeline = co_await executor_.run_step();
  last_ = summarize(ran_, timeline);
  if (++steps_ > rule_.skipped_steps) {
    ready_times_.add(ran_, timeline);
    ends_us_.push_back(last_.communication_end_us);
  }
  if (stage_ == Stage::settled)
    co_await watch(last_.communication_end_us);
  else if (steps_ >= rule_.skipped_steps + rule_.profile_steps)
    co_await plan_anew();
  co_return timeline;
}

Task<> PlannedTraining::plan_anew() {
  std::map<std::string, double> medians = ready_times_.medians();
  insert_.ready_us = co_await share_ready_times(communicator_, std::move(medians));
  Insertion next = insert_all_reduce(graph_, insert_);
  const bool is_new = stage_ == Stage::profiling || next.plan.hash() != insertion_.plan.hash();
  if (is_new && rounds_ < rule_.most_rounds) {
    ++rounds_;
    ++plans_;
    insertion_ = std::move(next);
    co_await run_by(insertion_);
    begin_stage(Stage::refining);
    co_return;
  }
  if (!is_new) insertion_.plan = std::move(next.plan);
  const double mine = median(ends_us_);
  const double end = co_await communicator_.all_reduce(mine, ReduceOp::max);
  const double predicted = insertion_.plan.finish_us;
  const bool is_as_predicted = !is_new && std::abs(end - predicted) <= rule_.tolerance * predicted;
  expected_end_us_ = is_as_predicted ? predicted : end;
  begin_stage(Stage::settled);
}

Task<> PlannedTraining::watch(double measured_end_us) {
  const bool is_beyond = std::abs(measured_end_us - expected_end_us_) > rule_.tolerance * expected_end_us_;
  steps_beyond_ = is_beyond ? steps_beyond_ + 1 : 0;
  if (steps_ % rule_.patience != 0) co_return;
  const unsigned most = co_await communicator_.all_reduce(steps_beyond_, ReduceOp::max);
  if (most < rule_.patience) co_return;
  rounds_ = 0;
  co_await profile();
}

std::string PlannedTraining::explain() const {
  std::optional<PlanMeasurement> measured;
  if (last_.step_us > 0)
    measured = PlanMeasurement{.finish_us = last_.communication_end_us, .exposed_us = last_.exposed_us};
  const std::vector<Plan> others = rules_of_others(insertion_.plan.items, insert_.cost);
  return graph::explain(insertion_.plan, insert_.cost, others, measured);
}

}  // namespace cohort::graph
