// SPDX-License-Identifier: Apache-2.0
// Ranks that are so many that only neighbours are connected from the start: what concerns all is passed on.
#include <cohort/cohort.h>
#include <cohort/engine/world/settings.h>
#include <cohort/net/control_graph.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>
#include <cohort/tests/support/world_run.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cohort::many_hosts_test {
namespace {

using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::Outcome;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr Rank kRanks = 66;
constexpr Rank kRanksPerHost = 9;
/// Neither is a neighbour of the other one.
constexpr Rank kVictim = 41;
constexpr Rank kFar = 30;
/// Interactions of a rank with its host: far more than until it has joined, and than it has in some seconds
/// of sleep.
constexpr std::uint64_t kDiesLater = 6'000;

CommunicatorOptions small() {
  CommunicatorOptions options;
  options.buffer_bytes = std::size_t{64} << 10;
  options.heap_bytes = std::size_t{4} << 20;
  options.timeout = minutes(10);
  options.warn_after = seconds(0);
  options.transport = "tcp";                           // who waits for it in this world sleeps
  options.algorithm = "barrier=tree/all_reduce=tree";  // over few links
  return options;
}

/// So many on a core each do not measure the network, which takes links between all of them.
world::Settings crowded_hosts() {
  world::Settings settings;
  settings.seed = 1;
  settings.most_turns = 200'000'000;
  settings.host_of.resize(kRanks);
  for (Rank rank = 0; rank < kRanks; ++rank) settings.host_of[rank] = rank / kRanksPerHost;
  return settings;
}

std::vector<Rank> neighbours_of(Rank rank) {
  return ControlGraph(Hosts(crowded_hosts().host_of)).neighbours_of(rank);
}

Task<> meet(Communicator& comm) { co_await comm.barrier(); }

Task<> hear(Communicator& comm, std::span<float> word, Rank from) { co_await comm.recv(word, from); }

/// Until it dies, and no longer: dead ranks go on at the very end of their world.
Task<> sleep_till_death(Communicator& comm) {
  for (std::uint64_t steps = 0; steps < 2 * kDiesLater; ++steps)
    co_await comm.engine().sleep_for(std::chrono::milliseconds(1));
}

void expect_all_name(const std::vector<Outcome>& outcomes, std::string_view kind, Rank culprit) {
  for (Rank rank = 0; rank < kRanks; ++rank) {
    if (rank == culprit) continue;
    const auto& error = outcomes[rank].error;
    EXPECT_EQ(kind_of(error), kind) << "rank " << rank << ": " << (error ? error->what() : "");
    EXPECT_EQ(error ? error->culprit() : std::nullopt, culprit)
        << "rank " << rank << ": " << (error ? error->what() : "");
  }
}

TEST(ManyHosts, ranks_join_call_and_leave) {
  const auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    std::vector<std::int64_t> sum = {comm.rank()};
    co_await comm.all_reduce(std::span<std::int64_t>(sum), ReduceOp::sum);
    EXPECT_EQ(sum[0], kRanks * (kRanks - 1) / 2);
    std::vector<std::int64_t> word = {comm.rank()};
    std::vector<std::int64_t> heard(1);
    if (comm.rank() == kFar) co_await comm.send(std::span<const std::int64_t>(word), kVictim);
    if (comm.rank() == kVictim) {
      co_await comm.recv(std::span(heard), kFar);
      EXPECT_EQ(heard[0], kFar);
    }
    co_await comm.barrier();
  };
  for (const auto& outcome : test::outcomes_of_ranks_in_world(crowded_hosts(), body, small()))
    EXPECT_EQ(kind_of(outcome.error), "no error") << outcome.error->what();
}

TEST(ManyHosts, a_setting_that_one_has_else_is_named_on_all) {
  const auto body = [](Communicator& comm) -> Task<> { co_await comm.barrier(); };
  CommunicatorOptions options = small();
  options.join.address = "10.0.0.1:7000";
  options.join.is_unauthenticated = true;
  options.join.timeout = minutes(1);
  std::vector<std::optional<Error>> errors(kRanks);
  std::vector<std::function<void(Engine&)>> bodies;
  for (Rank rank = 0; rank < kRanks; ++rank)
    bodies.emplace_back([&errors, &options, &body, rank](Engine& engine) {
      CommunicatorOptions own = options.for_rank(rank, kRanks);
      if (rank == kVictim) own.buffer_bytes *= 2;
      errors[rank] = test::error_from([&] { engine.run(run_rank(engine, own, body)); });
    });
  test::run_world(crowded_hosts(), bodies);
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(kind_of(error), "Mismatch");
    EXPECT_THAT(error->what(), HasSubstr("CCL buffer size differs"));
  }
}

TEST(ManyHosts, a_death_is_heard_by_all_though_most_of_its_neighbours_compute) {
  world::Settings settings = crowded_hosts();
  settings.dead = {{.process = kVictim, .step = kDiesLater}};
  std::vector<Rank> computing = neighbours_of(kVictim);
  computing.resize(computing.size() - 2);
  std::vector<TimePoint> heard(kRanks);
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    if (comm.rank() == kVictim) {
      co_await sleep_till_death(comm);
      co_return;
    }
    if (std::ranges::binary_search(computing, comm.rank())) test::compute(comm.engine(), minutes(5));
    const auto error = co_await error_of(meet(comm));
    heard[comm.rank()] = comm.engine().now();
    if (error) throw Error(*error);
  };
  const auto outcomes = test::outcomes_of_ranks_in_world(settings, body, small());
  expect_all_name(outcomes, "PeerDied", kVictim);
  for (Rank rank = 0; rank < kRanks; ++rank)
    if (rank != kVictim && !std::ranges::binary_search(computing, rank)) {
      EXPECT_LT(heard[rank] - heard[kFar], seconds(1)) << rank;
    }
}

TEST(ManyHosts, a_rank_that_is_stopped_is_named_on_all) {
  world::Settings settings = crowded_hosts();
  settings.dead = {{.process = kVictim, .step = kDiesLater, .is_silent = true}};
  CommunicatorOptions options = small();
  options.timeout = seconds(30);
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    if (comm.rank() == kVictim) {
      co_await sleep_till_death(comm);
      co_return;
    }
    co_await comm.barrier();
  };
  const auto outcomes = test::outcomes_of_ranks_in_world(settings, body, options);
  for (Rank rank = 0; rank < kRanks; ++rank)
    if (rank != kVictim) {
      EXPECT_EQ(outcomes[rank].error ? outcomes[rank].error->culprit() : std::nullopt, kVictim)
          << rank << ": " << (outcomes[rank].error ? outcomes[rank].error->what() : "no error");
    }
}

/// Rank 0 says that it has come, which nobody passes on: all of its neighbours compute.
TEST(ManyHosts, nobody_is_blamed_who_waits_among_ranks_that_compute) {
  const std::vector<Rank> computing = neighbours_of(0);
  CommunicatorOptions options = small();
  options.timeout = seconds(30);
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const bool computes = std::ranges::binary_search(computing, comm.rank());
    if (computes) test::compute(comm.engine(), minutes(2));
    co_await comm.barrier();
  };
  const auto outcomes = test::outcomes_of_ranks_in_world(crowded_hosts(), body, options);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    const auto& error = outcomes[rank].error;
    EXPECT_EQ(kind_of(error), "DeadlineExceeded") << rank;
    EXPECT_EQ(error ? error->culprit() : std::nullopt, computing.front()) << (error ? error->what() : "");
  }
}

TEST(ManyHosts, those_who_leave_let_two_of_those_who_stay_go_on) {
  const auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const bool stays = comm.rank() == kFar || comm.rank() == kVictim;
    std::vector<float> word(1, 1);
    for (int i = 0; stays && i < 5; ++i) {
      co_await comm.engine().sleep_for(seconds(2));
      if (comm.rank() == kFar)
        co_await comm.send(std::span<const float>(word), kVictim);
      else
        co_await comm.recv(std::span(word), kFar);
    }
    if (comm.rank() != kVictim) co_return;
    const auto error = co_await error_of(hear(comm, word, kFar));  // who has left then
    EXPECT_EQ(error ? error->culprit() : std::nullopt, kFar) << (error ? error->what() : "");
  };
  for (const auto& outcome : test::outcomes_of_ranks_in_world(crowded_hosts(), body, small()))
    EXPECT_EQ(kind_of(outcome.error), "no error") << outcome.error->what();
}

TEST(ManyHosts, a_group_is_made_among_ranks_that_are_no_neighbours_while_all_others_compute) {
  const std::vector<Rank> ranks = {kFar, 5, kVictim, 60};
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    if (std::ranges::find(ranks, comm.rank()) == ranks.end()) {
      test::compute(comm.engine(), minutes(1));
      co_return;
    }
    Communicator group = co_await comm.group(ranks, "far");
    std::vector<std::int64_t> sum = {comm.rank()};
    co_await group.all_reduce(std::span<std::int64_t>(sum), ReduceOp::sum);
    EXPECT_EQ(sum[0], std::accumulate(ranks.begin(), ranks.end(), std::int64_t{0}));
    co_await group.close();
  };
  for (const auto& outcome : test::outcomes_of_ranks_in_world(crowded_hosts(), body, small()))
    EXPECT_EQ(kind_of(outcome.error), "no error") << outcome.error->what();
}

TEST(ManyHosts, a_death_ends_a_group_though_all_neighbours_of_the_dead_compute) {
  world::Settings settings = crowded_hosts();
  settings.dead = {{.process = kVictim, .step = 2 * kDiesLater}};
  const std::vector<Rank> ranks = {kFar, 5, kVictim};
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    if (std::ranges::find(ranks, comm.rank()) == ranks.end()) {
      test::compute(comm.engine(), minutes(5));
      co_return;
    }
    Communicator group = co_await comm.group(ranks, "far");
    if (comm.rank() == kVictim) {
      co_await sleep_till_death(comm);
      co_return;
    }
    const TimePoint begun = comm.engine().now();
    const auto error = co_await error_of(meet(group));
    EXPECT_EQ(kind_of(error), "PeerDied") << (error ? error->what() : "");
    EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{2});
    EXPECT_LT(comm.engine().now() - begun, minutes(2));
    const auto leaving = co_await error_of(group.close());
    EXPECT_FALSE(leaving) << leaving->what();
  };
  (void)test::outcomes_of_ranks_in_world(settings, body, small());
}

/// Only these have seen its connections end. The others learn of it when one of them needs it: its kernel
/// refuses a connection.
TEST(ManyHosts, a_death_is_told_to_those_who_need_the_dead_though_all_its_neighbours_compute) {
  world::Settings settings = crowded_hosts();
  settings.dead = {{.process = kVictim, .step = kDiesLater}};
  const std::vector<Rank> computing = neighbours_of(kVictim);
  const auto body = [&](Communicator& comm) -> Task<> {
    if (comm.rank() == kVictim) {
      co_await sleep_till_death(comm);
      co_return;
    }
    const bool computes = std::ranges::binary_search(computing, comm.rank());
    if (computes) test::compute(comm.engine(), minutes(1));
    co_await comm.engine().sleep_for(seconds(5));  // until it is dead
    EXPECT_EQ(comm.is_failed(), computes) << comm.rank();
    const TimePoint begun = comm.engine().now();
    const auto error = co_await error_of(meet(comm));
    EXPECT_LT(comm.engine().now() - begun, seconds(2)) << comm.rank();
    if (error) throw Error(*error);
  };
  expect_all_name(test::outcomes_of_ranks_in_world(settings, body, small()), "PeerDied", kVictim);
}

/// Where nobody who needs it reads, it is one of those that have not called.
TEST(ManyHosts, a_death_among_ranks_that_compute_is_told_at_the_deadline_as_a_call_that_has_not_come) {
  world::Settings settings = crowded_hosts();
  settings.dead = {{.process = kVictim, .step = kDiesLater}};
  const std::vector<Rank> waiting = {5, 17, kFar};
  CommunicatorOptions options = small();
  options.timeout = seconds(1);
  const auto body = [&](Communicator& comm) -> Task<> {
    if (comm.rank() == kVictim) {
      co_await sleep_till_death(comm);
      co_return;
    }
    if (!std::ranges::binary_search(waiting, comm.rank())) test::compute(comm.engine(), minutes(1));
    co_await comm.engine().sleep_for(seconds(5));
    const TimePoint begun = comm.engine().now();
    const auto error = co_await error_of(meet(comm));
    EXPECT_LT(comm.engine().now() - begun, seconds(5)) << comm.rank();
    if (error) throw Error(*error);
  };
  const auto outcomes = test::outcomes_of_ranks_in_world(settings, body, options);
  for (const Rank rank : waiting) {
    const auto& error = outcomes[rank].error;
    EXPECT_EQ(kind_of(error), "DeadlineExceeded") << rank;
    EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{0}) << (error ? error->what() : "");
    EXPECT_THAT(error ? error->what() : "", HasSubstr("rank 41 (")) << rank;
  }
}

TEST(ManyHosts, control_connections_that_are_made_on_first_use_are_encrypted_too) {
  const std::vector<Rank> ranks = {kFar, 5, kVictim, 60};
  CommunicatorOptions options = small();
  options.join.encryption = Encryption::required;
  options.join.secret = test::secret_of(1);
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const Membership& membership = comm.membership();
    for (const Rank peer : membership.neighbours)
      EXPECT_EQ(membership.control[peer].is_protected(), !membership.shares_host(peer)) << peer;
    if (std::ranges::find(ranks, comm.rank()) != ranks.end()) {
      for (const Rank peer : ranks) EXPECT_FALSE(membership.control[peer].is_open()) << peer;
      Communicator group = co_await comm.group(ranks, "far");
      co_await group.barrier();
      for (const Rank peer : ranks)
        EXPECT_EQ(membership.control[peer].is_protected(), peer != comm.rank()) << peer;
      co_await group.close();
    }
    co_await comm.barrier();
  };
  for (const auto& outcome : test::outcomes_of_ranks_in_world(crowded_hosts(), body, options))
    EXPECT_EQ(kind_of(outcome.error), "no error") << outcome.error->what();
}

TEST(ManyHosts, a_connection_of_two_that_are_no_neighbours_and_live_is_told_to_all_when_it_breaks) {
  world::Settings settings = crowded_hosts();
  settings.broken = {{.from = kFar, .to = kVictim, .step = 50}};
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    std::vector<float> word(1, 1);
    for (int i = 0; i < 200; ++i) {
      if (comm.rank() == kFar) co_await comm.send(std::span<const float>(word), kVictim);
      if (comm.rank() == kVictim) co_await comm.recv(std::span(word), kFar);
    }
    co_await comm.barrier();
  };
  expect_all_name(test::outcomes_of_ranks_in_world(settings, body, small()), "LinkFault", kVictim);
}

}  // namespace
}  // namespace cohort::many_hosts_test
