// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/calibrator.h>

#include <cohort/collectives/calibration/network_calibration.h>
#include <cohort/net/connections.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

/// Of what is left for joining, so that together with what each rank has measured by itself it is a fifth.
constexpr int kPartForMeasuring = 6;
constexpr Duration kMostForHost = std::chrono::milliseconds(400);
constexpr Duration kMostForNetwork = std::chrono::seconds(10);  // connecting included

}  // namespace

void Calibrator::take_over_from_job() noexcept {
  const Reach& known = use_.job.as_joined().reach;
  Reach& reach = use_.choices.measured_reach();
  if (!known.is_host_wide)
    reach.model = {known.model.speed(), known.model.inside(), use_.membership.size,
                   NetworkSpeed::between(use_.membership).by(known.model.network())};
  reach.slots = known.slots;
  reach.pull = known.pull;
}

bool Calibrator::is_known_to_job() const noexcept {
  return use_.is_group && use_.job.as_joined().reach.is_host_wide;
}

bool Calibrator::measures_host() const noexcept {
  return use_.messages.arrival() && use_.choices.reach().is_host_wide && !is_known_to_job();
}

bool Calibrator::measures_network() const noexcept {
  const CostModel& model = use_.choices.reach().model;
  const bool may_measure = model.speed().ranks_per_core <= kMostRanksPerCoreToMeasure;
  return !use_.is_group && model.network().ports > 1 && may_measure;
}

Task<> Calibrator::measure_as_joined(TimePoint until) {
  const auto budget = [&](Duration most) {
    return std::min(most, Duration(until - use_.engine.now()) / kPartForMeasuring);
  };
  if (measures_host()) co_await measure_host(budget(kMostForHost));
  if (measures_network()) co_await measure_network(budget(kMostForNetwork));
}

void Calibrator::joined() {
  use_.choices.joined();
  if (is_known_to_job()) measures_again_ = use_.job.as_joined().measures_again;
  if (measures_again_ && use_.messages.arrival())
    use_.choices.set_end(later_.begin(use_.messages.running().sequence));
  measured_at_ = use_.engine.now();
  pull_as_joined_ = use_.choices.reach().pull;
  if (!use_.is_group) use_.job.set_as_joined({use_.choices.reach(), measures_again_});
}

std::size_t Calibrator::least_pulled_message() const {
  return messages_pull_from(use_.pull_from_bytes, use_.job.ranks_per_core(), pull_as_joined_);
}

/// Leaves no trace: arrivals count from the user's first call again.
Task<> Calibrator::measure_host(Duration budget) {
  Calibration& calibration = begin_calibration();
  co_await calibration.agree_what_to_measure(use_.job.ranks_per_core(), use_.pull_from_bytes, budget);
  measures_again_ = calibration.measures();
  Reach& reach = use_.choices.measured_reach();
  if (may_pull()) co_await calibration.measure_pull(reach.pull);
  co_await calibration.measure_slots(reach.slots);  // against what the kernel copies, where it does
  co_await use_.messages.forget_unnumbered();
  calibration_.reset();
}

Task<> Calibrator::measure_network(Duration budget) {
  PeerTransports& transports = use_.messages.resources().transports();
  const KnownFigures known(
      use_.engine.platform(),
      fmt::format("{}ranks/{:.3g}percore/{}x{}/{}", use_.membership.size,
                  use_.choices.reach().model.speed().ranks_per_core, transports.name(),
                  transports.tcp_connections(),
                  use_.membership.encryption == Encryption::required ? "encrypted" : "plain"),
      &use_.membership);
  const auto choose = [this](const Call& call) {
    return choose_algorithm(call, use_.choices.reach(), use_.choices.algorithms(), {}).algorithm;
  };
  JointMeasurement together(use_.engine, use_.membership, runs_call(), choose);
  NetworkCalibration::UseConnections use_connections;
  if (transports.tcp_connections() == kMeasuredConnections)
    use_connections = [&transports](unsigned spread_over, unsigned made) {
      transports.use_connections(spread_over, made);
    };
  NetworkCalibration calibration(std::move(together), use_.choices.reach(), known, budget,
                                 std::move(use_connections));
  const CostModel measured = co_await calibration.measure();
  use_.choices.measured_reach().model = measured;
}

JointMeasurement::RunCall Calibrator::runs_call() const {
  return [this](const Call& call) { return use_.messages.run_unnumbered(call); };
}

/// Within one process everything is mapped.
bool Calibrator::may_pull() const noexcept {
  return use_.messages.resources().transports().common_capabilities().reads_memory &&
         !use_.messages.arrival()->is_one_process();
}

Calibration& Calibrator::begin_calibration() {
  const std::string conditions =
      fmt::format("{}ranks/{:.3g}percore/{}", use_.membership.size, use_.job.ranks_per_core(),
                  use_.messages.arrival()->is_one_process() ? "threads" : "processes");
  calibration_ = std::make_unique<Calibration>(use_.engine, use_.membership, use_.job.membership(),
                                               use_.choices.algorithms(), *use_.messages.resources().group(),
                                               KnownFigures(use_.engine.platform(), conditions), runs_call());
  return *calibration_;
}

/// Ranks have come here by the number of their calls, and agree on how much time has passed, on whether all
/// have some and on what they find, so that they go on with equal figures.
Task<> Calibrator::measure_again(TimePoint until) {
  const JointMeasurement together(use_.engine, use_.membership, runs_call(), [this](const Call& call) {
    return use_.choices.algorithms().ways_on_host(call.op).in_slots;
  });
  const TimePoint now = use_.engine.now();
  const bool has_time = until == kNever || until - now >= LaterMeasuring::kLeastLeft;
  std::array<double, 4> most = {in_microseconds(now - measured_at_),
                                static_cast<double>(use_.engine.platform().core_cache_bytes()),
                                use_.pull_from_bytes == 0 ? 0.0 : 1.0, has_time ? 0.0 : 1.0};
  co_await together.agree_on_slowest(most);
  if (most[3] != 0) {
    use_.choices.set_end(later_.put_off(use_.messages.running().sequence));
    co_return;
  }
  const LaterMeasuring::Round round = later_.next(use_.messages.running().sequence, most[0]);
  if (round.budget > Duration::zero()) {
    Calibration& calibration = begin_calibration();
    const bool pulls = may_pull() && most[2] == 0;
    Reach& reach = use_.choices.measured_reach();
    PullCrossover* const pull = pulls ? &reach.pull : nullptr;
    co_await calibration.measure_again(round, static_cast<std::size_t>(most[1]), pull, reach.slots);
    calibration_.reset();
    use_.choices.forget_chosen();
    measured_at_ = use_.engine.now();
  }
  use_.choices.set_end(later_.end_after(use_.messages.running().sequence));
}

}  // namespace cohort
