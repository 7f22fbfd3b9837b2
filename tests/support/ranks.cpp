// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/ranks.h>

#include <cohort/engine/world/platform.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_run.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace cohort::test {

namespace {

Outcome run_one(Engine& engine, CommunicatorOptions options, const RankFunction& function) {
  try {
    engine.run(run_rank(engine, std::move(options), function));
    return {};
  } catch (const Error& error) {
    return {error};
  } catch (const std::exception& error) {
    return {Error(ErrorKind::Internal, error.what())};
  }
}

/// A minute, unless the test has a time of its own.
void give_time_to_join(JoinOptions& options) {
  if (options.timeout == JoinOptions().timeout) options.timeout = std::chrono::seconds(60);
}

void meet_in(CommunicatorOptions& options) {
  options.join.address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
  give_time_to_join(options.join);
}

void expect_success(const std::vector<Outcome>& outcomes) {
  for (Rank rank = 0; rank < outcomes.size(); ++rank) {
    const auto& error = outcomes[rank].error;
    EXPECT_FALSE(error.has_value()) << "rank " << rank << ": " << error->what();
  }
}

}  // namespace

std::string host_of(Rank rank, Rank ranks, Rank hosts) {
  return hosts == 1 ? std::string() : fmt::format("host {}", rank * hosts / ranks);
}

std::vector<Outcome> outcomes_of_ranks(Rank ranks, const RankFunction& function, CommunicatorOptions options,
                                       Rank hosts) {
  meet_in(options);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&outcomes, &function, &options, rank, ranks, hosts] {
      CommunicatorOptions own = options.for_rank(rank, ranks);
      own.join.host_id = host_of(rank, ranks, hosts);
      Engine engine;
      engine.set_oversubscribed(hosts > 1);  // each of them takes this one's cores for its own
      outcomes[rank] = run_one(engine, std::move(own), function);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

std::vector<Outcome> outcomes_of_ranks_in_world(const world::Settings& settings, const RankFunction& function,
                                                CommunicatorOptions options) {
  const auto ranks = static_cast<Rank>(settings.host_of.size());
  const bool is_one_host = std::ranges::count(settings.host_of, settings.host_of[0]) == ranks;
  options.join.address = is_one_host ? "unix:ranks" : "10.0.0.1:7000";
  options.join.is_unauthenticated = !is_one_host && !options.join.secret;
  give_time_to_join(options.join);
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::function<void(Engine&)>> bodies;
  for (Rank rank = 0; rank < ranks; ++rank)
    bodies.emplace_back([&outcomes, &function, &options, rank, ranks](Engine& engine) {
      outcomes[rank] = run_one(engine, options.for_rank(rank, ranks), function);
    });
  test::run_world(settings, bodies);
  return outcomes;
}

std::vector<Outcome> outcomes_of_ranks_in_world(Rank ranks, const RankFunction& function,
                                                CommunicatorOptions options, Rank hosts) {
  world::Settings settings;
  settings.seed = 1;
  for (Rank rank = 0; rank < ranks; ++rank) settings.host_of.push_back(rank * hosts / ranks);
  return outcomes_of_ranks_in_world(settings, function, std::move(options));
}

void compute(Engine& engine, Duration takes) {
  dynamic_cast<world::WorldPlatform&>(engine.platform()).compute(takes);
}

void run_ranks(Rank ranks, const RankFunction& function, CommunicatorOptions options, Rank hosts) {
  expect_success(outcomes_of_ranks(ranks, function, std::move(options), hosts));
}

void run_ranks_on(Engine& engine, Rank ranks, const RankFunction& function, CommunicatorOptions options) {
  meet_in(options);
  std::vector<Outcome> outcomes(ranks);
  auto play = [&](Rank rank) -> Task<> {
    auto error = co_await test::error_of(run_rank(engine, options.for_rank(rank, ranks), function));
    outcomes[rank].error = std::move(error);
  };
  auto all = [&]() -> Task<> {
    std::vector<Task<>> parts;
    for (Rank rank = 0; rank < ranks; ++rank) parts.push_back(play(rank));
    co_await when_all(parts);
  };
  engine.run(all());
  expect_success(outcomes);
}

void run_ranks_in_world(Rank ranks, const RankFunction& function, CommunicatorOptions options, Rank hosts) {
  expect_success(outcomes_of_ranks_in_world(ranks, function, std::move(options), hosts));
}

void run_ranks_with_cores(Rank ranks, const RankFunction& function, CommunicatorOptions options) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of.assign(ranks, 0);
  settings.has_core_each = true;
  expect_success(outcomes_of_ranks_in_world(settings, function, std::move(options)));
}

}  // namespace cohort::test
