// SPDX-License-Identifier: Apache-2.0
// A rank that has no memory for what comes says so, and lives.
#include <cohort/tests/support/no_memory.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort {
namespace {

using ::cohort::testing::kind_of;
using ::cohort::testing::NoMemory;
using ::testing::HasSubstr;

constexpr std::size_t kBytes = 4000;

/// Rank 1 waits for another message than the one that comes, and would have to keep that.
Task<> send_what_nobody_wants(Communicator& comm) {
  std::vector<std::byte> data(kBytes);
  co_await comm.barrier();
  if (comm.rank() == 0) {
    co_await comm.send(data, 1, 1);
    co_await comm.recv(data, 1, 3);
  } else {
    const NoMemory no_memory(kBytes);
    co_await comm.recv(data, 0, 2);
  }
}

TEST(NoMemory, for_a_message_that_nobody_wants_yet_is_told_on_both_ranks) {
  for (const char* const transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks(2, send_what_nobody_wants, options);
    for (const test::Outcome& outcome : outcomes) {
      EXPECT_EQ(kind_of(outcome.error), "ResourceLimit") << transport;
      if (!outcome.error) continue;
      EXPECT_EQ(outcome.error->culprit(), Rank{1});
      EXPECT_THAT(outcome.error->what(), HasSubstr("has no memory for the messages that come"));
    }
  }
}

}  // namespace
}  // namespace cohort
