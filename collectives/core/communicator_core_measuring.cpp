// SPDX-License-Identifier: Apache-2.0
// What the ranks of a CommunicatorCore measure together, when they join and later, so that calls are chosen
// by figures of their hosts.
#include <cohort/collectives/core/communicator_core.h>

#include <cohort/collectives/calibration/calibration.h>
#include <cohort/collectives/calibration/network_calibration.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

/// Of what is left for joining, so that together with what each rank has measured by itself it is a fifth.
constexpr int kPartForMeasuring = 6;
constexpr Duration kMostForHost = std::chrono::milliseconds(400);
constexpr Duration kMostForNetwork = std::chrono::seconds(10);

}  // namespace

Task<> CommunicatorCore::establish(Duration timeout) {
  const TimePoint until = after(engine_.now(), timeout);
  const auto budget = [&](Duration most) {
    return std::min(most, Duration(until - engine_.now()) / kPartForMeasuring);
  };
  if (is_group_)
    establish_in_job();
  else
    co_await establish_with_all(timeout);
  make_ready();
  const bool is_measured = is_group_ && job_->as_joined().reach.is_host_wide;
  const auto on_host = [&] { return measure_host(budget(kMostForHost)); };
  const auto on_network = [&] { return measure_network(budget(kMostForNetwork)); };
  const LinkSpeed& speed = choices_.reach().model.speed();
  const bool may_measure = speed.keeps_figures && speed.ranks_per_core <= kMostRanksPerCoreToMeasure;
  const bool measures_network = !is_group_ && choices_.reach().model.network().ports > 1 && may_measure;
  if (arrival_ && choices_.reach().is_host_wide && !is_measured) co_await measure(on_host);
  if (measures_network) co_await measure(on_network);
  health_.joined();
  choices_.joined();
  if (is_measured) measures_again_ = job_->as_joined().measures_again;
  if (measures_again_ && arrival_) choices_.set_end(later_.begin(running_.sequence));
  measured_at_ = engine_.now();
  pull_as_joined_ = choices_.reach().pull;
  if (!is_group_) job_->set_as_joined({choices_.reach(), measures_again_});
}

/// What ranks measure together, so that what follows is chosen by figures of these hosts.
Task<> CommunicatorCore::measure(const std::function<Task<>()>& what) {
  CancelScope* around = co_await current_scope();
  CancelScope scope(around);
  operation_scope_ = &scope;
  if (health_.is_failed()) scope.cancel(health_.cause());
  std::exception_ptr failure;
  try {
    Task<> measuring = with_scope(scope, what());
    co_await measuring;
  } catch (...) {
    failure = std::current_exception();
  }
  operation_scope_ = nullptr;
  running_.is_running = false;
  if (failure) std::rethrow_exception(failure);
}

/// Leaves no trace: arrivals count from the user's first call again.
Task<> CommunicatorCore::measure_host(Duration budget) {
  Calibration& calibration = begin_calibration();
  co_await calibration.agree_what_to_measure(membership_.engines_per_core(), pull_from_bytes_, budget);
  measures_again_ = calibration.measures();
  if (may_pull()) co_await calibration.measure_pull(choices_.measured_reach().pull);
  co_await calibration.measure_slots(
      choices_.measured_reach().slots);  // against what the kernel copies, where it does
  co_await exec_.phase();                // all are through
  resources_.group()->forget_arrivals();
  arrival_->forget_last_call();
  co_await exec_.phase();  // all have forgotten
  running_.sequence = 0;
  calibration_.reset();
}

Task<> CommunicatorCore::measure_network(Duration budget) {
  const KnownFigures known(
      engine_.platform(),
      fmt::format("{}ranks/{:.3g}percore", membership_.size, choices_.reach().model.speed().ranks_per_core),
      &membership_);
  const auto choose = [this](const Call& call) {
    return choose_algorithm(call, choices_.reach(), choices_.algorithms(), {}).algorithm;
  };
  JointMeasurement together(
      engine_, membership_, [this](const Call& call) { return run_unnumbered(call); }, choose);
  NetworkCalibration calibration(std::move(together), choices_.reach(), known, budget);
  const CostModel measured = co_await calibration.measure();
  choices_.measured_reach().model = measured;
}

/// Within one process everything is mapped.
bool CommunicatorCore::may_pull() const noexcept {
  return resources_.transports().common_capabilities().reads_memory && !arrival_->is_one_process();
}

Calibration& CommunicatorCore::begin_calibration() {
  const std::string conditions =
      fmt::format("{}ranks/{:.3g}percore/{}", membership_.size, membership_.engines_per_core(),
                  arrival_->is_one_process() ? "threads" : "processes");
  calibration_ =
      std::make_unique<Calibration>(engine_, membership_, job_->membership(), choices_.algorithms(),
                                    *resources_.group(), KnownFigures(engine_.platform(), conditions),
                                    [this](const Call& call) { return run_unnumbered(call); });
  return *calibration_;
}

/// One call outside the numbered sequence of the user's: no watchdog, since the joining has its deadline.
Task<> CommunicatorCore::run_unnumbered(const Call& call) {
  prepare(call, sign(call, membership_.size));
  co_await run_begun(call);
  running_.is_running = false;
}

/// After a call to which all have come, so that they are together; `is_joint`: it was one. The time that it
/// takes is the call's: where that could become short, nothing is measured.
Task<> CommunicatorCore::run_and_measure_again(Task<> running, bool is_joint) {
  co_await running;
  if (!is_joint) {
    choices_.set_end(later_.postpone(running_.sequence));
    co_return;
  }
  const TimePoint until = std::min(watchdog_.deadline(), operation_scope_->deadline());
  call_.begin_measuring();
  watchdog_.begin_message();
  co_await measure_again(until);
}

/// Ranks have come here by the number of their calls, and agree on how much time has passed, on whether all
/// have some and on what they find, so that they go on with equal figures.
Task<> CommunicatorCore::measure_again(TimePoint until) {
  const JointMeasurement together(
      engine_, membership_, [this](const Call& call) { return run_unnumbered(call); },
      [this](const Call& call) { return choices_.algorithms().ways_on_host(call.op).in_slots; });
  const TimePoint now = engine_.now();
  const bool has_time = until == kNever || until - now >= LaterMeasuring::kLeastLeft;
  std::array<double, 4> most = {in_microseconds(now - measured_at_),
                                static_cast<double>(engine_.platform().core_cache_bytes()),
                                pull_from_bytes_ == 0 ? 0.0 : 1.0, has_time ? 0.0 : 1.0};
  co_await together.agree_on_slowest(most);
  if (most[3] != 0) {
    choices_.set_end(later_.put_off(running_.sequence));
    co_return;
  }
  const LaterMeasuring::Round round = later_.next(running_.sequence, most[0]);
  if (round.budget > Duration::zero()) {
    Calibration& calibration = begin_calibration();
    const bool pulls = may_pull() && most[2] == 0;
    PullCrossover* const pull = pulls ? &choices_.measured_reach().pull : nullptr;
    co_await calibration.measure_again(round, static_cast<std::size_t>(most[1]), pull,
                                       choices_.measured_reach().slots);
    calibration_.reset();
    choices_.forget_chosen();
    measured_at_ = engine_.now();
  }
  choices_.set_end(later_.end_after(running_.sequence));
}

}  // namespace cohort
