// SPDX-License-Identifier: Apache-2.0
// What ranks of several hosts learn of the network as they join.
#include <cohort/cohort.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/tests/support/ranks.h>
#include <cohort/tests/support/world_run.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace cohort::network_calibration_test {
namespace {

using namespace std::chrono_literals;

/// Two ranks on each of three hosts: neighbours are on one host and on two.
world::Settings hosts_of_two() {
  world::Settings settings;
  settings.host_of = {0, 0, 1, 1, 2, 2};
  settings.late_percent = 0;
  return settings;
}

std::vector<NetworkSpeed> measured_in(const world::Settings& settings,
                                      const CommunicatorOptions& options = {}) {
  std::vector<NetworkSpeed> measured(settings.host_of.size());
  const auto learn = [&](Communicator& comm) -> Task<> {
    measured[comm.rank()] = comm.reach().model.network();
    co_await comm.barrier();
  };
  for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(settings, learn, options))
    EXPECT_FALSE(outcome.error.has_value()) << outcome.error->message();
  return measured;
}

TEST(NetworkCalibration, finds_how_far_hosts_are_apart) {
  world::Settings settings = hosts_of_two();
  const double near_us = measured_in(settings).front().latency_us;
  settings.outside_latency = 300us;
  const double far_us = measured_in(settings).front().latency_us;
  // A way takes up to twice its latency there; the best of batches of four counts.
  EXPECT_GE(near_us, 20);
  EXPECT_LE(near_us, 90);
  EXPECT_GE(far_us, near_us + 270);
  EXPECT_LE(far_us, near_us + 600);
}

/// Of four hosts, with a core of one machine for all or for each a machine; the last two are far apart.
double latency_us_between(bool are_containers) {
  world::Settings settings;
  settings.host_of = {0, 1, 2, 3};
  settings.late_percent = 0;
  settings.degraded = {{.from = 2, .to = 3, .latency_factor = 20}};
  settings.is_one_machine = are_containers;
  double latency_us = 0;
  std::vector<std::function<void(Engine&)>> bodies;
  for (Rank rank = 0; rank < 4; ++rank)
    bodies.emplace_back([&latency_us, rank](Engine& engine) {
      CommunicatorOptions options;
      options.join.rank = rank;
      options.join.size = 4;
      options.join.address = "10.0.0.1:7000";
      options.join.is_unauthenticated = true;
      options.join.host_id = std::to_string(rank);
      engine.run(run_rank(engine, options, [&latency_us](Communicator& comm) -> Task<> {
        latency_us = comm.reach().model.network().latency_us;
        co_await comm.barrier();
      }));
    });
  test::run_world(settings, bodies);
  return latency_us;
}

TEST(NetworkCalibration, lets_the_first_pair_of_containers_stand_for_all_that_share_a_core) {
  EXPECT_GE(latency_us_between(false), 290);
  const double us = latency_us_between(true);
  EXPECT_GE(us, 20);
  EXPECT_LE(us, 90);
}

TEST(NetworkCalibration, finds_that_a_network_is_slow) {
  world::Settings settings = hosts_of_two();
  settings.bytes_per_ns = 0.01;
  EXPECT_NEAR(measured_in(settings).front().byte_us, 0.1, 0.03);
  settings.bytes_per_ns = 100;
  EXPECT_LE(measured_in(settings).front().byte_us, 0.001);
}

TEST(NetworkCalibration, gives_all_ranks_the_same_model) {
  const std::vector<NetworkSpeed> measured = measured_in(hosts_of_two());
  for (const NetworkSpeed& one : measured) {
    EXPECT_EQ(one.latency_us, measured.front().latency_us);
    EXPECT_EQ(one.byte_us, measured.front().byte_us);
    EXPECT_EQ(one.ports, 3);
  }
}

/// There each connection has a rate of its own.
TEST(NetworkCalibration, takes_several_connections_where_they_carry_more) {
  world::Settings settings = hosts_of_two();
  settings.bytes_per_ns = 0.2;
  settings.buffer_bytes = std::size_t{1} << 20;
  constexpr double kOneUs = 0.005;
  CommunicatorOptions options;
  for (const NetworkSpeed& of_one : measured_in(settings, options))
    EXPECT_NEAR(of_one.byte_us, kOneUs, 0.001);
  options.tcp_connections = kMeasuredConnections;
  for (const NetworkSpeed& of_several : measured_in(settings, options))
    EXPECT_NEAR(of_several.byte_us, kOneUs / kConnectionsToMeasure, 0.0005);
}

/// What takes long is measured once: ranks on two continents join in seconds.
TEST(NetworkCalibration, asks_little_of_hosts_that_are_far_apart) {
  world::Settings settings = hosts_of_two();
  settings.outside_latency = 100ms;
  Duration joined_after{};
  const auto note = [&](Communicator& comm) -> Task<> {
    joined_after = comm.engine().now() - TimePoint(1h);  // when worlds begin
    EXPECT_GE(comm.reach().model.network().latency_us, 90'000);
    co_await comm.barrier();
  };
  for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(settings, note))
    EXPECT_FALSE(outcome.error.has_value()) << outcome.error->message();
  EXPECT_LE(joined_after, 15s);
}

TEST(NetworkCalibration, leaves_calls_their_numbers) {
  const auto differ = [](Communicator& comm) -> Task<> {
    std::vector<float> data(comm.rank() == 1 ? 8 : 4);
    co_await comm.all_reduce(data, ReduceOp::sum);
  };
  for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(hosts_of_two(), differ)) {
    ASSERT_TRUE(outcome.error.has_value());
    EXPECT_THAT(outcome.error->message(), testing::HasSubstr("#1"));
  }
}

/// At whichever moment of joining: before the figures are measured, meanwhile, and between two of them; by
/// all pairs, or by the first alone, whom the others wait for.
TEST(NetworkCalibration, names_who_falls_silent_meanwhile) {
  const auto nothing = [](Communicator&) -> Task<> { co_return; };
  CommunicatorOptions options;
  options.join.timeout = 20s;
  for (const auto& [silent, are_containers] : {std::pair{3U, false}, {0U, true}, {1U, true}, {3U, true}}) {
    std::size_t named = 0;
    for (std::uint64_t step = 60; step < 1000; step += 47) {
      world::Settings settings = hosts_of_two();
      settings.is_one_machine = are_containers;
      settings.dead = {{.process = silent, .step = step, .is_silent = true}};
      const std::vector<test::Outcome> outcomes =
          test::outcomes_of_ranks_in_world(settings, nothing, options);
      for (Rank rank = 0; rank < outcomes.size(); ++rank) {
        const std::optional<Error>& error = outcomes[rank].error;
        if (rank == silent || !error) continue;
        EXPECT_EQ(error->culprit(), silent) << "step " << step << ", rank " << rank << ": " << error->what();
        ++named;
      }
    }
    EXPECT_GE(named, 50U) << "these moments are not those of joining";
  }
}

/// A group of ranks of several hosts goes by what all have measured; one within a host needs no network.
TEST(NetworkCalibration, serves_groups) {
  const auto split = [](Communicator& comm) -> Task<> {
    std::optional<Communicator> column = co_await comm.split(static_cast<int>(comm.rank() % 2), 0);
    EXPECT_EQ(column->reach().model.network().latency_us, comm.reach().model.network().latency_us);
    EXPECT_EQ(column->reach().model.network().ports, 3);
    co_await column->close();
  };
  for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(hosts_of_two(), split))
    EXPECT_FALSE(outcome.error.has_value()) << outcome.error->message();
}

}  // namespace
}  // namespace cohort::network_calibration_test
