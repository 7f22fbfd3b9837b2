// SPDX-License-Identifier: Apache-2.0
// A control connection to a peer that takes connections, and is never through with the handshake.
#include <cohort/net/data_connection.h>

#include <cohort/net/join/join.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_engine.h>

namespace cohort::control_calls_test {
namespace {

using ::testing::HasSubstr;

TEST(ControlCall, is_given_up_after_some_minutes_and_was_not_made_without_end_meanwhile) {
  test::WorldEngine engine;
  std::vector<Membership> members;
  for (test::Joined& one : test::join_on(engine, test::world_of(2, test::fresh_unix_address()))) {
    ASSERT_TRUE(one.membership) << one.error->what();
    members.push_back(std::move(*one.membership));
  }
  const TimePoint begin = engine.now();
  std::size_t calls = 0;
  std::optional<Error> failure;
  auto scene = [&]() -> Task<> {
    TaskScope scope;
    auto hang_up = [&]() -> Task<> {
      for (;; ++calls) co_await members[1].data_listener.accept();
    };
    scope.spawn(hang_up());
    const std::optional<Error> error = co_await test::error_of(connect_control(engine, members[0], 1));
    failure = error;
    scope.cancel();
    co_await scope.join();
  };
  engine.run(scene());
  EXPECT_EQ(test::kind_of(failure), "PeerSilent");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->culprit(), 1U);
  EXPECT_THAT(failure->what(), HasSubstr("no control connection to rank 1"));
  EXPECT_GE(engine.now() - begin, std::chrono::minutes(5));
  EXPECT_LT(engine.now() - begin, std::chrono::minutes(20));
  EXPECT_LT(calls, 1000U);
}

/// As of a host that is gone: what calls is never answered, here since as many wait as the kernel keeps.
TEST(ControlCall, to_whom_nothing_answers_for_the_hosts_time_has_lost_its_connection) {
  const Descriptor full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof place;
  auto* const any = reinterpret_cast<sockaddr*>(&place);
  ASSERT_EQ(::bind(full.number(), any, bytes), 0);
  ASSERT_EQ(::getsockname(full.number(), any, &bytes), 0);
  ASSERT_EQ(::listen(full.number(), 0), 0);
  std::vector<Descriptor> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(waiting.back().number(), any, bytes);
  }
  Engine engine;
  std::vector<test::Joined> joined = test::join_on(engine, test::world_of(2, test::fresh_unix_address()));
  ASSERT_TRUE(joined[0].membership && joined[1].membership);
  Membership& own = *joined[0].membership;
  own.host_timeout = std::chrono::seconds(1);
  own.peers[1].data_address = Address::from_sockaddr(&place, bytes);
  const auto call = [&]() -> Task<> {
    const std::optional<Error> error = co_await test::error_of(connect_control(engine, own, 1));
    EXPECT_EQ(test::kind_of(error), "LinkFault");
    EXPECT_THAT(error ? error->what() : "", HasSubstr("nothing answers"));
  };
  engine.run(call());
}

}  // namespace
}  // namespace cohort::control_calls_test
