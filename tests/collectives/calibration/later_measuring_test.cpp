// SPDX-License-Identifier: Apache-2.0
// What ranks measured as they joined, or had no time for, is measured again while they run.
#include <cohort/cohort.h>
#include <cohort/collectives/calibration/later_measuring.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace cohort::later_measuring_test {
namespace {

using namespace std::chrono_literals;
using Round = LaterMeasuring::Round;

TEST(LaterMeasuring, comes_after_a_second_then_two_then_four) {
  LaterMeasuring later;
  const double calls_per_us = 0.1;
  std::uint64_t sequence = 0;
  double measured_us = 0;
  std::vector<double> after_s;
  for (std::uint64_t next = later.begin(0); after_s.size() < 6;) {
    sequence = next;
    const double now_us = static_cast<double>(sequence) / calls_per_us;
    const Round round = later.next(sequence, now_us - measured_us);
    if (round.budget > Duration::zero()) {
      after_s.push_back((now_us - measured_us) / 1e6);
      measured_us = now_us;
      EXPECT_EQ(round.number, after_s.size());
      EXPECT_LE(round.budget, LaterMeasuring::kMostTime);
    }
    next = later.end_after(sequence);
    ASSERT_GT(next, sequence);
  }
  double wait_s = 1;
  for (const double one : after_s) {
    EXPECT_GE(one, wait_s);
    EXPECT_LE(one, 1.1 * wait_s);
    wait_s *= 2;
  }
}

/// A program that begins with many small calls and goes on with few must not wait for hours.
TEST(LaterMeasuring, estimates_are_not_far_ahead) {
  LaterMeasuring later;
  std::uint64_t sequence = later.begin(0);
  static_cast<void>(later.next(sequence, 1));  // a microsecond for all of these
  EXPECT_LE(later.end_after(sequence), sequence * (1 + LaterMeasuring::kGrowth));
}

TEST(LaterMeasuring, asks_seldom_where_calls_are_short) {
  LaterMeasuring later;
  std::uint64_t sequence = later.begin(0);
  int looks = 0;
  for (Round round; round.budget == Duration::zero(); ++looks) {
    round = later.next(sequence, static_cast<double>(sequence));  // one in a microsecond
    sequence = later.end_after(sequence);
  }
  EXPECT_LE(looks, 12);
}

/// Three ranks, each on a core, for which everything takes so much longer.
world::Settings slow_host(double factor) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = {0, 0, 0};
  settings.has_core_each = true;
  for (world::Process process = 0; process < settings.host_of.size(); ++process)
    settings.slow.push_back({process, factor});
  return settings;
}

constexpr double kTooSlowToMeasure = 3000;

void expect_success(const std::vector<test::Outcome>& outcomes) {
  for (const test::Outcome& outcome : outcomes)
    EXPECT_FALSE(outcome.error.has_value()) << outcome.error->message();
}

/// Limits of all operators, which all ranks have to have alike.
Task<> expect_equal_limits(Communicator& comm) {
  std::vector<double> limits;
  for (const Operator op : all_operators())
    limits.push_back(static_cast<double>(comm.reach().slots.most_bytes(op)));
  std::vector<double> most(limits.size());
  co_await comm.all_reduce(limits, most, ReduceOp::max);
  EXPECT_EQ(most, limits);
}

Task<> await(Collective call) { co_await std::move(call); }

Task<> run_for(Communicator& comm, Duration time) {
  std::vector<float> data(16);
  const TimePoint until = comm.engine().now() + time;
  for (double is_over = 0; is_over == 0;) {
    test::compute(comm.engine(), 1ms);
    co_await comm.all_reduce(data, ReduceOp::sum);
    is_over = comm.engine().now() < until ? 0 : 1;
    co_await comm.all_reduce(std::span(&is_over, 1), ReduceOp::max);
  }
}

/// With the whole time for joining, and little of it.
TEST(SlowHost, is_joined_in_time_and_has_defaults) {
  CommunicatorOptions options;
  options.join.timeout = 4s;
  for (const double factor : {1.0, 30.0, 1000.0, kTooSlowToMeasure}) {
    std::vector<std::size_t> measured(3);
    const auto body = [&](Communicator& comm) -> Task<> {
      measured[comm.rank()] = comm.reach().slots.measured().size();
      EXPECT_LE(comm.engine().now() - TimePoint(1h), options.join.timeout) << factor;
      co_await expect_equal_limits(comm);
    };
    expect_success(test::outcomes_of_ranks_in_world(slow_host(factor), body, options));
    for (const std::size_t one : measured) EXPECT_EQ(one, measured.front()) << factor;
    if (factor == 1) {
      EXPECT_GT(measured.front(), 0U);
    }
    if (factor == kTooSlowToMeasure) {
      EXPECT_EQ(measured.front(), 0U);
    }
  }
}

TEST(SlowHost, measures_later_what_there_was_no_time_for) {
  CommunicatorOptions options;
  options.join.timeout = 100ms;
  const auto body = [&](Communicator& comm) -> Task<> {
    const std::size_t before = comm.reach().slots.measured().size();
    co_await run_for(comm, 12s);
    EXPECT_GT(comm.reach().slots.measured().size(), before);
    co_await expect_equal_limits(comm);
  };
  expect_success(test::outcomes_of_ranks_in_world(slow_host(10), body, options));
}

/// A call goes by what all ranks know when it runs, whenever it was made.
TEST(LaterMeasuring, calls_that_were_made_before_run_as_those_made_after) {
  for (const std::size_t count : {1000UL, 4000UL, 12000UL, 40000UL}) {
    const auto body = [&](Communicator& comm) -> Task<> {
      std::vector<float> data(count, 1);
      std::optional<Collective> early;
      if (comm.rank() == 0) early.emplace(comm.all_reduce(data, ReduceOp::sum));
      co_await run_for(comm, 5s);
      if (!early) early.emplace(comm.all_reduce(data, ReduceOp::sum));
      co_await std::move(*early);
      EXPECT_EQ(data, std::vector<float>(count, 3));
    };
    CommunicatorOptions options;
    options.join.timeout = 100ms;
    expect_success(test::outcomes_of_ranks_in_world(slow_host(10), body, options));
  }
}

/// Ranks come to groups that are made beside calls one after the other, and measure meanwhile.
TEST(LaterMeasuring, groups_know_the_same_on_all_ranks) {
  const auto body = [&](Communicator& comm) -> Task<> {
    bool is_over = false;
    const auto call = [&]() -> Task<> {
      co_await run_for(comm, 8s);
      is_over = true;
    };
    const auto make_groups = [&]() -> Task<> {
      const std::vector<Rank> all = {0, 1, 2};
      for (double ends = 0; ends == 0;) {
        Communicator group = co_await comm.group(all, "beside");
        co_await expect_equal_limits(group);
        ends = is_over ? 1 : 0;
        co_await group.all_reduce(std::span(&ends, 1), ReduceOp::max);
        co_await group.close();
      }
    };
    co_await when_all(call(), make_groups());
  };
  CommunicatorOptions options;
  options.join.timeout = 100ms;
  for (const std::uint64_t seed : {1, 2, 3}) {
    world::Settings settings = slow_host(10);
    settings.seed = seed;
    expect_success(test::outcomes_of_ranks_in_world(settings, body, options));
  }
}

/// Neither a call's own deadline nor one around it ends a call that is over.
TEST(LaterMeasuring, takes_no_time_of_calls_that_have_little) {
  for (const bool is_around : {false, true}) {
    const auto body = [&](Communicator& comm) -> Task<> {
      const std::size_t before = comm.reach().slots.measured().size();
      std::vector<float> data(16);
      const TimePoint until = comm.engine().now() + 3s;
      for (double is_over = 0; is_over == 0;) {
        is_over = comm.engine().now() < until ? 0 : 1;
        Collective call = comm.all_reduce(std::span(&is_over, 1), ReduceOp::max);
        const Duration limit = comm.rank() == 0 ? 900ms : 10s;
        if (is_around)
          co_await with_deadline(limit, await(std::move(call)));
        else
          co_await std::move(call).with_deadline(limit);
        co_await comm.engine().sleep_for(1ms);
      }
      EXPECT_EQ(comm.reach().slots.measured().size(), before);
    };
    CommunicatorOptions options;
    options.join.timeout = 100ms;
    expect_success(test::outcomes_of_ranks_in_world(slow_host(10), body, options));
  }
}

/// What one rank's options say holds for all, also later.
TEST(LaterMeasuring, is_agreed_where_the_options_of_one_rank_say_what_the_kernel_copies) {
  constexpr Rank kRanks = 2;
  const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
  const auto life = [&address](Rank rank, int progress) -> int {
    Engine engine;
    CommunicatorOptions options;
    options.join.rank = rank;
    options.join.size = kRanks;
    options.join.address = address;
    options.transport = "shm";
    if (rank == 1) options.pull_from_bytes = kNeverPull;
    const auto body = [&](Communicator& comm) -> Task<> {
      EXPECT_EQ(::write(progress, "", 1), 1);
      const TimePoint until = comm.engine().now() + 4s;  // two rounds of measuring
      for (double is_over = 0; is_over == 0;) {
        is_over = comm.engine().now() < until ? 0 : 1;
        co_await comm.all_reduce(std::span(&is_over, 1), ReduceOp::max);
      }
    };
    engine.run(run_rank(engine, std::move(options), body));
    return 0;
  };
  test::MortalRanks ranks;
  EXPECT_EQ(ranks.start(kRanks, life), kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.status_of(rank), 0) << rank;
}

}  // namespace
}  // namespace cohort::later_measuring_test
