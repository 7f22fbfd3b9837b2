// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/measurement.h>

#include <cohort/engine/error.h>
#include <cohort/tools/bench/threads.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::bench {
namespace {

constexpr std::size_t kLeastIterations = 5;
constexpr std::size_t kFewIterations = 3;
constexpr int kPatientBudgets = 4;  ///< how many of them iterations may take before few are enough
constexpr std::size_t kLeastWarmup = 1;
constexpr std::size_t kMostWarmup = 200;
constexpr int kWarmupPart = 6;   ///< of the budget
constexpr int kRewarmPart = 20;  ///< the same, after the cores did something else
constexpr Duration kSpreadPatience = std::chrono::milliseconds(200);

/// For all ranks to come to the start line: writing and checking the largest inputs takes a fraction of it.
constexpr Duration kPatience = std::chrono::minutes(2);

StartLine::Polls polls_for(const Membership& membership, bool has_processors, bool is_joined) {
  if (is_joined) return StartLine::Polls::spin;  // at no line
  const std::vector<std::size_t> threads = threads_of(membership);
  if (std::count(threads.begin(), threads.end(), threads[membership.rank]) > 1) return StartLine::Polls::once;
  return has_processors ? StartLine::Polls::spin : StartLine::Polls::yield;
}

/// The first rank on another thread than rank 0.
std::optional<Rank> partner_of_first(const Membership& membership) {
  const std::vector<std::size_t> threads = threads_of(membership);
  const auto found = std::find(threads.begin(), threads.end(), std::size_t{1});
  if (found == threads.end()) return std::nullopt;
  return static_cast<Rank>(found - threads.begin());
}

/// Between two looks at where the cores are.
constexpr Duration kPlacementPause = std::chrono::milliseconds(8);
constexpr int kMostImpatience = 64;
/// While ranks 0 and 1 measure.
constexpr Duration kPlacementPoll = std::chrono::microseconds(200);

}  // namespace

void summarise(std::span<double> samples_us, Result& result) {
  std::sort(samples_us.begin(), samples_us.end());
  const std::size_t count = samples_us.size();
  result.iterations = count;
  result.min_us = samples_us.front();
  result.median_us = samples_us[count / 2];
  result.p99_us = samples_us[std::min(count - 1, count * 99 / 100)];
}

Measurement::Measurement(Communicator& comm, const Options& options, Board& board, bool has_processors)
    : comm_(comm),
      options_(options),
      board_(board),
      own_(board.slots[comm.rank()]),
      line_(board, comm.rank(), comm.size(), polls_for(comm.membership(), has_processors, options.is_joined),
            std::max<std::size_t>(comm.membership().cores_of_machine().count(), 1)),
      placement_(board, comm.rank(), partner_of_first(comm.membership())),
      workload_(comm, options, board) {
  own_.sample_us.fill(0);  // the pages are there before anything is timed
}

Measurement::Limits Measurement::warmup_limits() const {
  if (options_.warmup) return {*options_.warmup, *options_.warmup, {}};
  return {kLeastWarmup, kMostWarmup, options_.budget / kWarmupPart, kSpreadPatience};
}

Measurement::Limits Measurement::timed_limits() const {
  if (options_.iterations) return {*options_.iterations, *options_.iterations, {}};
  return {kLeastIterations, kMostIterations, options_.budget};
}

Task<Result> Measurement::measure(Point point) {
  workload_.select(point);
  Result result;
  result.point = point;
  result.shape = workload_.shape();
  result.algorithm = workload_.algorithm();
  own_.wrong = 0;
  if (options_.checks_results) {
    const std::size_t wrong = co_await verify();
    own_.wrong = wrong;
  }
  const std::span<double> dropped;
  co_await iterate(warmup_limits(), dropped);
  const std::size_t iterations = co_await time(result);
  result.iterations = iterations;
  // Inputs that were neither rewritten nor kept hold the sums of sums by now.
  const bool is_known = point.exercise->has_data && (options_.rewrites_inputs || workload_.keeps_input());
  if (options_.checks_results && is_known) own_.wrong += workload_.count_wrong();
  co_await publish(result.iterations);
  result.wrong = total_wrong();
  if (comm_.rank() == 0) {
    std::vector<double> slowest = slowest_of(0, result.iterations);
    summarise(slowest, result);
  }
  co_await meet();  // the slots are written again only when rank 0 has read them
  co_return result;
}

Task<std::size_t> Measurement::time(Result& result) {
  if (!options_.near_wait) {
    const std::size_t plain = co_await iterate(timed_limits(), own_.sample_us);
    co_return plain;
  }
  for (bool is_second = false;; is_second = true) {
    const double before_ns = co_await calibrate(*options_.near_wait);
    const Limits rewarm{0, kMostWarmup, options_.budget / kRewarmPart, kSpreadPatience};
    const std::span<double> dropped;
    co_await iterate(rewarm, dropped);
    const std::int64_t begin = now_ns();
    const std::size_t iterations = co_await iterate(timed_limits(), own_.sample_us);
    const bool was_short = now_ns() - begin <= 2 * options_.budget.count();
    const double after_ns = co_await calibrate(Duration::zero());
    result.round_trip_before_ns = before_ns;
    result.round_trip_after_ns = after_ns;
    bool is_again = !is_second && was_short && distance_of(before_ns) != distance_of(after_ns);
    co_await meet(&is_again);
    if (!is_again) co_return iterations;
  }
}

Task<double> Measurement::calibrate(Duration patience) {
  Engine& engine = comm_.engine();
  const TimePoint until = after(engine.now(), patience / impatience_);
  for (;;) {
    co_await meet();
    if (!placement_.measure())
      while (!placement_.is_done()) co_await engine.sleep_for(kPlacementPoll);
    const double round_trip_ns = placement_.round_trip_ns();
    const bool is_near = distance_of(round_trip_ns) == Distance::near;
    bool is_enough = is_near || round_trip_ns == 0 || engine.now() >= until;
    co_await meet(&is_enough);
    if (is_enough) {
      if (patience > Duration::zero()) impatience_ = is_near ? 1 : std::min(2 * impatience_, kMostImpatience);
      co_return round_trip_ns;
    }
    co_await engine.sleep_for(kPlacementPause);
  }
}

Task<std::vector<double>> Measurement::medians_of(const std::vector<std::function<Task<>()>>& steps) {
  constexpr std::size_t kWarmup = 1;
  constexpr std::size_t kTurns = 7;
  for (std::size_t turn = 0; turn < kWarmup + kTurns; ++turn) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      co_await comm_.barrier();
      co_await meet();
      const std::int64_t start = now_ns();
      co_await steps[i]();
      const std::int64_t end = now_ns();
      if (turn >= kWarmup)
        own_.sample_us[i * kTurns + turn - kWarmup] = static_cast<double>(end - start) / 1e3;
    }
  }
  co_await publish(steps.size() * kTurns);
  std::vector<double> medians;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<double> slowest = slowest_of(i * kTurns, kTurns);
    Result result;
    summarise(slowest, result);
    medians.push_back(result.median_us);
  }
  co_await meet();
  co_return medians;
}

Task<std::size_t> Measurement::iterate(Limits limits, std::span<double> samples_us) {
  Engine& engine = comm_.engine();
  const std::int64_t begin = now_ns();
  for (std::size_t done = 0;; ++done) {
    co_await comm_.barrier();
    if (options_.rewrites_inputs || done == 0) workload_.write_input(++sequence_);
    const std::int64_t taken_ns = now_ns() - begin;
    const bool is_few = limits.budget.count() > 0 && taken_ns >= kPatientBudgets * limits.budget.count();
    const bool is_enough =
        (done >= limits.least && taken_ns >= limits.budget.count()) || (is_few && done >= kFewIterations);
    const TimePoint deadline = line_deadline();
    const bool is_uneven = taken_ns < limits.patience.count() && !line_.is_spread();
    bool is_last = !is_uneven && (is_enough || done >= limits.most);
    if (options_.is_joined) {
      is_last = co_await agree(is_last);
    } else {
      line_.arrive(is_last);
      while (!line_.is_released()) {
        co_await engine.sleep_for(Duration::zero());
        check_peers(deadline);
      }
      is_last = line_.leave();
    }
    const std::int64_t start = line_.start_ns();
    if (workload_.point().exercise.is_messages()) {
      co_await workload_.run();
    } else {
      Collective operation = workload_.make();
      co_await std::move(operation);
    }
    const std::int64_t end = now_ns();
    if (is_last) co_return done;
    if (!samples_us.empty()) samples_us[done] = static_cast<double>(end - start) / 1e3;
  }
}

Task<std::size_t> Measurement::verify() {
  workload_.poison();
  co_await meet();
  workload_.write_input(++sequence_);
  co_await meet();
  co_await workload_.enter();
  co_await workload_.run();
  co_return workload_.count_wrong();
}

Task<bool> Measurement::agree(bool answer) {
  std::array<std::uint8_t, 1> told = {comm_.rank() == 0 && answer};
  co_await comm_.all_reduce(told, ReduceOp::max);
  co_return told[0] != 0;
}

Task<> Measurement::publish(std::size_t samples) {
  if (options_.is_joined) {
    const std::span<double> slowest_us = std::span(own_.sample_us).first(samples);
    std::array<std::uint64_t, 1> wrong = {own_.wrong};
    co_await comm_.all_reduce(slowest_us, ReduceOp::max);
    co_await comm_.all_reduce(wrong, ReduceOp::sum);
    own_.wrong = wrong[0];
  } else {
    co_await meet();
  }
}

Task<> Measurement::meet(bool* answer) {
  if (options_.is_joined) {
    const bool own_answer = answer != nullptr && *answer;
    const bool is_agreed = co_await agree(own_answer);
    if (answer != nullptr) *answer = is_agreed;
    co_return;
  }
  Engine& engine = comm_.engine();
  const TimePoint deadline = line_deadline();
  line_.arrive(answer != nullptr && *answer);
  while (!line_.is_released()) {
    co_await engine.sleep_for(Duration::zero());
    check_peers(deadline);
  }
  const bool is_yes = line_.leave();
  if (answer != nullptr) *answer = is_yes;
}

TimePoint Measurement::line_deadline() const { return after(comm_.engine().now(), kPatience); }

void Measurement::check_peers(TimePoint deadline) const {
  if (comm_.is_failed()) throw Error(comm_.failure());
  if (comm_.engine().now() < deadline) return;
  throw Error(
      ErrorKind::DeadlineExceeded,
      fmt::format("rank {} waits at the start line of the benchmark, where {} of {} ranks have arrived; a "
                  "rank is stopped or the machine overloaded",
                  comm_.rank(), line_.arrived(), comm_.size()));
}

std::uint64_t Measurement::total_wrong() const {
  std::uint64_t wrong = 0;
  for (Rank rank = 0; rank < comm_.size(); ++rank) wrong += board_.slots[rank].wrong;
  return wrong;
}

std::vector<double> Measurement::slowest_of(std::size_t first, std::size_t count) const {
  std::vector<double> slowest(count, 0.0);
  for (Rank rank = 0; rank < comm_.size(); ++rank) {
    const auto& samples = board_.slots[rank].sample_us;
    for (std::size_t i = 0; i < count; ++i) slowest[i] = std::max(slowest[i], samples[first + i]);
  }
  return slowest;
}

}  // namespace cohort::bench
