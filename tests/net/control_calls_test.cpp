// SPDX-License-Identifier: Apache-2.0
// A control connection to a peer that takes connections, and is never through with the handshake.
#include <cohort/net/data_connection.h>

#include <cohort/net/join/join.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(test::kind_of(failure), "LinkFault");
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->culprit(), 1U);
  EXPECT_THAT(failure->what(), HasSubstr("no control connection to rank 1"));
  EXPECT_GE(engine.now() - begin, std::chrono::minutes(5));
  EXPECT_LT(engine.now() - begin, std::chrono::minutes(20));
  EXPECT_LT(calls, 1000U);
}

}  // namespace
}  // namespace cohort::control_calls_test
