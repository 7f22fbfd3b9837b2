// SPDX-License-Identifier: Apache-2.0
// What a rank lacks, or was told wrong, while it joins: all hear of it at once.
#include <cohort/net/join/join.h>

#include <cohort/engine/when_all.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_engine.h>

namespace cohort::own_faults_test {
namespace {

using ::cohort::test::fresh_tcp_address;
using ::cohort::test::give_secret;
using ::cohort::test::join_into;
using ::cohort::test::join_on;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::cohort::test::world_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const Joined& joined) { return joined.error ? joined.error->what() : "joined"; }

std::optional<Rank> culprit_of(const Joined& joined) {
  return joined.error ? joined.error->culprit() : std::nullopt;
}

std::vector<JoinOptions> patient_world(Rank size, const std::string& address) {
  std::vector<JoinOptions> world = world_of(size, address);
  give_secret(world);
  for (JoinOptions& options : world) options.timeout = std::chrono::hours(1);
  return world;
}

TEST(OwnFaults, a_rank_without_a_free_port_is_named_to_all_at_once) {
  for (const Rank short_one : {0, 2}) {
    test::WorldEngine engine;
    std::vector<JoinOptions> world = patient_world(3, fresh_tcp_address());
    const std::string port = world[0].address.substr(world[0].address.rfind(':') + 1);
    world[short_one].ports = PortRange::parse(port + "-" + port, "COHORT_PORT_RANGE");
    const TimePoint begin = engine.now();
    const std::vector<Joined> joined = join_on(engine, std::move(world));
    EXPECT_LT(engine.now() - begin, std::chrono::seconds(10));
    for (Rank rank = 0; rank < joined.size(); ++rank) {
      EXPECT_EQ(kind_of(joined[rank].error), "ResourceLimit") << text_of(joined[rank]);
      EXPECT_THAT(text_of(joined[rank]), HasSubstr("COHORT_PORT_RANGE"));
      if (rank != short_one) {
        EXPECT_EQ(culprit_of(joined[rank]), short_one) << text_of(joined[rank]);
      }
    }
  }
}

Error wrong_variable() {
  return Error(ErrorKind::InvalidArgument, "COHORT_TIMEOUT='soon' is not a duration such as 30");
}

TEST(OwnFaults, a_rank_with_a_wrong_variable_is_named_to_all_at_once) {
  for (const bool by_tcp : {true, false}) {
    for (const Rank wrong : {0, 2}) {
      test::WorldEngine engine;
      auto world = patient_world(3, by_tcp ? fresh_tcp_address() : test::fresh_unix_address());
      world[wrong].fault = wrong_variable();
      const TimePoint begin = engine.now();
      const std::vector<Joined> joined = join_on(engine, std::move(world));
      EXPECT_LT(engine.now() - begin, std::chrono::seconds(3));
      const std::string host = engine.platform().host_name();
      const std::string who = wrong == 0 ? fmt::format("rank 0 ({}, pid ", host) : "rank 2 (pid ";
      const std::string where = wrong == 0 ? "gave up joining: COHORT_TIMEOUT" : fmt::format("on {}: ", host);
      for (Rank rank = 0; rank < joined.size(); ++rank) {
        EXPECT_EQ(kind_of(joined[rank].error), "InvalidArgument") << text_of(joined[rank]);
        EXPECT_THAT(text_of(joined[rank]), HasSubstr(wrong_variable().message()));
        if (rank == wrong) continue;
        EXPECT_EQ(culprit_of(joined[rank]), wrong) << text_of(joined[rank]);
        EXPECT_THAT(text_of(joined[rank]), AllOf(HasSubstr(who), HasSubstr(where)));
      }
    }
  }
}

TEST(OwnFaults, who_comes_some_seconds_later_hears_of_a_wrong_variable_too) {
  for (const Rank wrong : {0, 2}) {
    test::WorldEngine engine;
    std::vector<JoinOptions> world = patient_world(4, fresh_tcp_address());
    world[wrong].fault = wrong_variable();
    std::vector<Joined> joined(4);
    const auto later = [&]() -> Task<> {
      co_await engine.sleep_for(std::chrono::seconds(8));
      co_await join_into(engine, world[3], joined[3]);
    };
    const auto all = [&]() -> Task<> {
      std::vector<Task<>> ranks;
      for (Rank rank = 0; rank < 3; ++rank) ranks.push_back(join_into(engine, world[rank], joined[rank]));
      ranks.push_back(later());
      co_await when_all(ranks);
    };
    engine.run(all());
    EXPECT_EQ(kind_of(joined[3].error), "InvalidArgument") << text_of(joined[3]);
    EXPECT_EQ(culprit_of(joined[3]), wrong) << text_of(joined[3]);
  }
}

TEST(OwnFaults, a_setting_out_of_range_is_told_as_a_wrong_variable_is) {
  test::WorldEngine engine;
  std::vector<JoinOptions> world = patient_world(3, fresh_tcp_address());
  world[1].host_timeout = Duration::zero();
  for (const Joined& one : join_on(engine, std::move(world))) {
    EXPECT_EQ(kind_of(one.error), "InvalidArgument") << text_of(one);
    EXPECT_THAT(text_of(one), HasSubstr("COHORT_HOST_TIMEOUT"));
  }
}

TEST(OwnFaults, ranks_that_are_all_wrong_wait_for_nobody_who_has_left) {
  test::WorldEngine engine;
  std::vector<JoinOptions> world = patient_world(8, fresh_tcp_address());
  for (JoinOptions& options : world) options.fault = wrong_variable();
  const TimePoint begin = engine.now();
  for (const Joined& one : join_on(engine, std::move(world)))
    EXPECT_EQ(text_of(one), wrong_variable().what());
  EXPECT_LT(engine.now() - begin, std::chrono::seconds(1));
}

TEST(OwnFaults, a_wrong_rank_that_is_alone_says_so_after_seconds) {
  for (const Rank wrong : {0, 1}) {
    test::WorldEngine engine;
    JoinOptions options = std::move(patient_world(2, fresh_tcp_address())[wrong]);
    options.fault = wrong_variable();
    const TimePoint begin = engine.now();
    Joined joined;
    engine.run(join_into(engine, std::move(options), joined));
    EXPECT_EQ(text_of(joined), wrong_variable().what());
    EXPECT_LT(engine.now() - begin, std::chrono::seconds(11));
  }
}

TEST(OwnFaults, an_address_without_a_port_is_refused_on_every_rank) {
  test::WorldEngine engine;
  const TimePoint begin = engine.now();
  for (const Joined& one : join_on(engine, patient_world(2, "127.0.0.1:0"))) {
    EXPECT_EQ(kind_of(one.error), "InvalidArgument") << text_of(one);
    EXPECT_THAT(text_of(one), HasSubstr("have to know the port of rank 0"));
  }
  EXPECT_EQ(engine.now(), begin);
}

TEST(OwnFaults, a_host_that_does_not_even_refuse_is_said_not_to_answer) {
  test::WorldEngine engine;
  std::vector<JoinOptions> world = patient_world(2, fresh_tcp_address());
  world[1].timeout = std::chrono::milliseconds(300);
  const Listener deaf(engine, Address::parse(world[0].address));
  Joined joined;
  engine.run(join_into(engine, std::move(world[1]), joined));
  EXPECT_EQ(kind_of(joined.error), "MissingRanks") << text_of(joined);
  EXPECT_THAT(text_of(joined),
              AllOf(HasSubstr("no answer to connecting"), Not(HasSubstr("longer deadline"))));
}

TEST(OwnFaults, encryption_that_a_dry_run_does_not_have_is_warned_of_once) {
  std::vector<JoinOptions> world = patient_world(3, fresh_tcp_address());
  for (JoinOptions& options : world) {
    options.encryption = Encryption::required;
    options.host_id = "host " + std::to_string(options.rank);
  }
  ::testing::internal::CaptureStderr();
  // By the kernel's own loopback: that of a simulated world leaves its hosts.
  const auto check = [](Engine&, Joined& joined) { EXPECT_TRUE(joined.membership) << text_of(joined); };
  test::join_on_threads(std::move(world), check);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("warn: connections to 2 ranks of other hosts do not leave this machine"));
  EXPECT_EQ(told.find("do not leave"), told.rfind("do not leave")) << told;
}

}  // namespace
}  // namespace cohort::own_faults_test
