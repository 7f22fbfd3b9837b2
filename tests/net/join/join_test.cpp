// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join.h>

#include <cohort/engine/system/affinity.h>
#include <cohort/engine/when_all.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/world_engine.h>

namespace cohort::join_test {
namespace {

using ::cohort::test::exchange_ranks;
using ::cohort::test::fresh_tcp_address;
using ::cohort::test::fresh_unix_address;
using ::cohort::test::give_secret;
using ::cohort::test::join_on;
using ::cohort::test::join_on_threads;
using ::cohort::test::Joined;
using ::cohort::test::open_descriptors;
using ::cohort::test::world_of;
using ::testing::HasSubstr;

constexpr Rank kSizes[] = {1, 2, 3, 4, 8};

void expect_complete(const Joined& joined, Rank rank, Rank size) {
  ASSERT_FALSE(joined.error) << joined.error->what();
  const Membership& membership = *joined.membership;
  EXPECT_EQ(membership.rank, rank);
  EXPECT_EQ(membership.size, size);
  EXPECT_EQ(membership.name, "world");
  EXPECT_TRUE(membership.secret.is_set());
  ASSERT_EQ(membership.peers.size(), size);
  ASSERT_EQ(membership.control.size(), size);
  for (Rank peer = 0; peer < size; ++peer) {
    EXPECT_EQ(membership.peers[peer].rank, peer);
    EXPECT_TRUE(membership.shares_host(peer));
    EXPECT_TRUE(membership.shares_process(peer));
    EXPECT_EQ(membership.control[peer].is_open(), peer != rank);
    if (peer == rank) continue;
    EXPECT_TRUE(membership.control[peer].local_address().is_unix()) << "within a host";
  }
  EXPECT_EQ(membership.self().incarnation, membership.incarnation);
}

void expect_same_table(const Membership& one, const Membership& other) {
  ASSERT_EQ(one.peers.size(), other.peers.size());
  for (std::size_t rank = 0; rank < one.peers.size(); ++rank) {
    EXPECT_EQ(one.peers[rank].incarnation, other.peers[rank].incarnation);
    EXPECT_EQ(one.peers[rank].engine, other.peers[rank].engine);
    EXPECT_EQ(one.peers[rank].host, other.peers[rank].host);
    EXPECT_EQ(one.peers[rank].data_address.to_string(), other.peers[rank].data_address.to_string());
  }
  EXPECT_TRUE(std::ranges::equal(one.secret.bytes(), other.secret.bytes()));
}

void expect_world_joins(std::vector<JoinOptions> world) {
  const Rank size = static_cast<Rank>(world.size());
  Engine engine;
  std::vector<Joined> joined = join_on(engine, std::move(world));
  for (Rank rank = 0; rank < size; ++rank) expect_complete(joined[rank], rank, size);
  if (::testing::Test::HasFailure()) return;
  for (Rank rank = 1; rank < size; ++rank) expect_same_table(*joined[0].membership, *joined[rank].membership);
  auto everybody = [&]() -> Task<> {
    std::vector<Task<>> ranks;
    for (Joined& one : joined) ranks.push_back(exchange_ranks(*one.membership));
    co_await when_all(ranks);
  };
  engine.run(everybody());
}

TEST(Join, ranks_on_one_engine_meet_at_a_unix_address_without_a_secret) {
  for (const Rank size : kSizes) expect_world_joins(world_of(size, fresh_unix_address()));
}

TEST(Join, ranks_meet_at_a_unix_address_with_a_secret) {
  std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
  give_secret(world);
  expect_world_joins(std::move(world));
}

TEST(Join, ranks_of_one_host_that_meet_by_tcp_have_unix_control_connections) {
  for (const Rank size : kSizes) {
    std::vector<JoinOptions> world = world_of(size, fresh_tcp_address());
    give_secret(world);
    expect_world_joins(std::move(world));
  }
}

TEST(Join, ranks_meet_at_all_interfaces_if_asked) {
  const std::string loopback = fresh_tcp_address();
  std::vector<JoinOptions> world = world_of(3, loopback);
  world[0].address = "0.0.0.0" + loopback.substr(loopback.rfind(':'));
  give_secret(world);
  Engine engine;
  const std::vector<Joined> joined = join_on(engine, std::move(world));
  for (const Joined& one : joined) ASSERT_TRUE(one.membership) << one.error->what();
  EXPECT_THAT(joined[2].membership->peers[0].data_address.to_string(), HasSubstr("127.0.0.1:"))
      << "not the wildcard, which is no address to connect to";
}

TEST(Join, control_connections_are_unix_within_a_host_and_tcp_between_hosts) {
  std::vector<JoinOptions> world = world_of(5, fresh_tcp_address());
  give_secret(world);
  for (JoinOptions& options : world) options.host_id = options.rank % 2 == 0 ? "even" : "odd";
  Engine engine;
  std::vector<Joined> joined = join_on(engine, std::move(world));
  for (const Joined& one : joined) ASSERT_TRUE(one.membership) << one.error->what();
  for (Rank rank = 0; rank < 5; ++rank) {
    const Membership& membership = *joined[rank].membership;
    for (Rank peer = 0; peer < 5; ++peer) {
      if (peer == rank) continue;
      EXPECT_EQ(membership.shares_host(peer), peer % 2 == rank % 2);
      EXPECT_EQ(membership.control[peer].local_address().is_unix(), membership.shares_host(peer));
    }
  }
  auto everybody = [&]() -> Task<> {
    std::vector<Task<>> ranks;
    for (Joined& one : joined) ranks.push_back(exchange_ranks(*one.membership));
    co_await when_all(ranks);
  };
  engine.run(everybody());
}

TEST(Join, ranks_on_threads_meet) {
  for (const Rank size : kSizes) {
    join_on_threads(world_of(size, fresh_unix_address()), [size](Engine& engine, Joined& joined) {
      ASSERT_TRUE(joined.membership) << joined.error->what();
      Membership& membership = *joined.membership;
      expect_complete(joined, membership.rank, size);
      for (Rank peer = 0; peer < size; ++peer)
        EXPECT_EQ(membership.peers[peer].engine == membership.self().engine, peer == membership.rank);
      engine.run(exchange_ranks(membership));
    });
  }
}

TEST(Join, ranks_that_are_bound_to_a_core_each_are_not_oversubscribed) {
  const std::vector<unsigned> processors = affinity::usable_processors();
  if (processors.size() < 2) GTEST_SKIP() << "needs two processors";
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  std::vector<std::thread> threads;
  for (JoinOptions& options : world)
    threads.emplace_back([&options, &processors] {
      affinity::bind_thread(processors[options.rank]);
      Engine engine;
      Joined joined;
      engine.run(test::join_into(engine, std::move(options), joined));
      ASSERT_TRUE(joined.membership) << joined.error->what();
      EXPECT_FALSE(engine.is_oversubscribed());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Join, many_ranks_that_come_at_once_meet) {
  constexpr Rank kMany = 160;
  test::WorldEngine engine(20);
  const std::vector<Joined> joined = join_on(engine, world_of(kMany, fresh_unix_address()));
  for (Rank rank = 0; rank < kMany; ++rank) expect_complete(joined[rank], rank, kMany);
}

TEST(Join, ranks_may_come_in_any_order_and_late) {
  std::vector<JoinOptions> world = world_of(4, fresh_unix_address());
  test::WorldEngine engine;
  std::vector<Joined> joined(world.size());
  auto late = [&](std::size_t index, Duration delay) -> Task<> {
    co_await engine.sleep_for(delay);
    co_await test::join_into(engine, std::move(world[index]), joined[index]);
  };
  auto everybody = [&]() -> Task<> {
    std::vector<Task<>> ranks;
    const std::chrono::milliseconds delays[] = {std::chrono::milliseconds(60), std::chrono::milliseconds(0),
                                                std::chrono::milliseconds(90), std::chrono::milliseconds(30)};
    for (std::size_t i = 0; i < 4; ++i) ranks.push_back(late(i, delays[i]));
    co_await when_all(ranks);
  };
  engine.run(everybody());
  for (Rank rank = 0; rank < 4; ++rank) expect_complete(joined[rank], rank, 4);
}

TEST(Join, twenty_joins_in_a_row_at_one_address_leave_nothing_behind) {
  const std::string address = fresh_unix_address();
  Engine engine;
  { const auto warm_up = join_on(engine, world_of(3, address)); }
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 20; ++round) {
    const std::vector<Joined> joined = join_on(engine, world_of(3, address));
    for (Rank rank = 0; rank < 3; ++rank) expect_complete(joined[rank], rank, 3);
    // Two control connections and a listener each; nothing else stays open.
    EXPECT_EQ(open_descriptors(), before + 3 * 2 + 3 * 2) << "a listener holds a reserve descriptor";
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Join, two_communicators_of_the_same_ranks_join_at_once) {
  std::vector<JoinOptions> world;
  for (const char* name : {"dp", "tp"})
    for (JoinOptions& options : world_of(3, "")) {
      options.name = std::string(name) + std::to_string(::testing::UnitTest::GetInstance()->random_seed());
      options.address.clear();  // the default one: by user and name
      world.push_back(std::move(options));
    }
  Engine engine;
  for (const Joined& one : join_on(engine, std::move(world)))
    EXPECT_TRUE(one.membership) << one.error->what();
}

TEST(Join, a_rank_alone_needs_no_address) {
  Engine engine;
  const std::size_t before = open_descriptors();
  const std::vector<Joined> joined = join_on(engine, world_of(1, ""));
  expect_complete(joined[0], 0, 1);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(PeerInfo, describes_itself_for_errors) {
  PeerInfo info;
  info.rank = 3;
  info.host = "node7";
  info.process = 4121;
  EXPECT_EQ(info.describe(), "rank 3 (node7, pid 4121)");
}

}  // namespace
}  // namespace cohort::join_test
