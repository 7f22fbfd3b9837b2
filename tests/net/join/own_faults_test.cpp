// SPDX-License-Identifier: Apache-2.0
// What a rank lacks, or was told wrong, while it joins: all hear of it at once.
#include <cohort/net/join/join.h>

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
