// SPDX-License-Identifier: Apache-2.0
// What the log says of a collective that takes long: for whom it waits, by one rank, ever more seldom.
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace cohort::long_call_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Rank `late` calls only after so long.
std::string said_while_waiting_for(Rank late, Duration takes, Rank hosts, CommunicatorOptions options) {
  const auto body = [&](Communicator& comm) -> Task<> {
    std::array<float, 2> values{};
    co_await comm.barrier();
    if (comm.rank() == late) co_await comm.engine().sleep_for(takes);
    co_await comm.all_reduce(values, ReduceOp::sum);
  };
  testing::internal::CaptureStderr();
  test::run_ranks_in_world(3, body, std::move(options), hosts);
  return testing::internal::GetCapturedStderr();
}

std::size_t warnings_in(const std::string& said) {
  std::size_t count = 0;
  for (std::size_t at = said.find("has taken"); at != std::string::npos; at = said.find("has taken", at + 1))
    ++count;
  return count;
}

TEST(LongCall, says_for_whom_it_waits_once_it_has_taken_half_a_minute) {
  for (const Rank hosts : {1, 3}) {
    const std::string said = said_while_waiting_for(1, 40s, hosts, {});
    EXPECT_THAT(said, ContainsRegex("all_reduce.* has taken 3[01] s: not called so far by rank 1 \\("));
    EXPECT_THAT(said, AllOf(HasSubstr("find out what that rank does instead"), HasSubstr("(COHORT_TIMEOUT)"),
                            Not(HasSubstr("rank 1 (world"))));
    EXPECT_EQ(warnings_in(said), 1U) << said;
  }
}

TEST(LongCall, is_told_by_the_lowest_rank_that_waits) {
  EXPECT_EQ(warnings_in(said_while_waiting_for(0, 40s, 3, {})), 1U);
  EXPECT_EQ(warnings_in(said_while_waiting_for(2, 40s, 3, {})), 1U);
}

TEST(LongCall, is_told_again_after_twice_as_long) {
  EXPECT_EQ(warnings_in(said_while_waiting_for(1, 250s, 1, {})), 4U) << "after 30, 60, 120 and 240 s";
}

TEST(LongCall, is_not_told_of_before_its_time_or_where_nobody_wants_to_hear) {
  EXPECT_EQ(said_while_waiting_for(1, 29s, 3, {}), "");
  CommunicatorOptions options;
  options.warn_after = Duration::zero();
  EXPECT_EQ(said_while_waiting_for(1, 250s, 3, options), "");
  options.warn_after = 2s;
  EXPECT_EQ(warnings_in(said_while_waiting_for(1, 3s, 3, options)), 1U);
}

}  // namespace
}  // namespace cohort::long_call_test
