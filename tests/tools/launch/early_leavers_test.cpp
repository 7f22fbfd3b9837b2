// SPDX-License-Identifier: Apache-2.0
// Ranks that end with success while others wait for them to join.
#include <cohort/tools/launch/launcher.h>

#include <cohort/engine/cancel_scope.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/process_support.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cohort::early_leavers_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

LaunchOptions script(std::string text, const test::Collector& output) {
  return {.ranks = 3,
          .command = {"/bin/sh", "-c", std::move(text)},
          .output_descriptor = output.descriptor(),
          .errors_descriptor = output.descriptor()};
}

/// Until it has said this, or for some minutes; then it is cancelled.
std::string said_until(const std::string& words, LaunchOptions options, const test::Collector& output) {
  Engine engine({.spin = Duration::zero()});
  auto body = [&]() -> Task<> {
    CancelScope scope(nullptr);
    auto job = [&]() -> Task<> {
      try {
        Task<int> launching = with_scope(scope, launch(engine, options));
        co_await launching;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Cancelled) << error.what();
      }
    };
    auto watch = [&]() -> Task<> {
      for (int i = 0; i < 2000 && output.text().find(words) == std::string::npos; ++i)
        co_await engine.sleep_for(100ms);
      scope.cancel();
    };
    co_await when_all(job(), watch());
  };
  engine.run(body());
  return output.text();
}

TEST(EarlyLeavers, are_told_of_while_others_wait_for_them_to_join) {
  const test::Collector output;
  LaunchOptions options =
      script(fmt::format("[ $COHORT_RANK = 1 ] && exit 0; exec {}/cohort bench barrier", COHORT_TEST_BIN_DIR),
             output);
  options.environment = {{"COHORT_JOIN_TIMEOUT", "5min"}};
  EXPECT_THAT(said_until("start as many ranks as join", std::move(options), output),
              AllOf(HasSubstr("rank 1 (process "),
                    HasSubstr(") ended with status 0, and rank 0 still waits at unix:")));
}

TEST(EarlyLeavers, are_no_news_where_nobody_joins) {
  const test::Collector output;
  Engine engine({.spin = Duration::zero()});
  EXPECT_EQ(engine.run(launch(engine, script("[ $COHORT_RANK = 0 ] && sleep 4; exit 0", output))), 0);
  EXPECT_EQ(output.text(), "");
}

TEST(EarlyLeavers, are_no_news_where_they_have_joined) {
  const test::Collector output;
  Engine engine({.spin = Duration::zero()});
  const std::string job =
      fmt::format("{}/cohort bench barrier; [ $COHORT_RANK = 0 ] && sleep 4; exit 0", COHORT_TEST_BIN_DIR);
  EXPECT_EQ(engine.run(launch(engine, script(job, output))), 0);
  EXPECT_THAT(output.text(), Not(HasSubstr("ended with status 0")));
}

}  // namespace
}  // namespace cohort::early_leavers_test
