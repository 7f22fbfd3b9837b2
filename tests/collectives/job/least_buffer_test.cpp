// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/resolved_options.h>
#include <cohort/collectives/schedules/ccl_buffer.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::least_buffer_test {
namespace {

using cohort::test::error_from;
using cohort::test::kind_of;
using ::testing::HasSubstr;

/// As Staging cuts it: half of the buffer, in grains of a cache line for each rank.
TEST(LeastBuffer, holds_a_piece_from_each_rank) {
  EXPECT_EQ(least_buffer_bytes(2), std::size_t{64} << 10);
  EXPECT_EQ(least_buffer_bytes(512), std::size_t{64} << 10);
  for (Rank ranks = 1; ranks <= 65536; ++ranks) {
    const std::size_t bytes = least_buffer_bytes(ranks);
    ASSERT_GE(bytes / ranks / 2 / 64, 1U) << ranks << " ranks";
    ASSERT_EQ(bytes % kBufferGrain, 0U) << ranks << " ranks";
  }
}

TEST(LeastBuffer, is_asked_for_before_ranks_meet) {
  CommunicatorOptions options;
  options.buffer_bytes = std::size_t{64} << 10;
  options.join.size = 512;
  EXPECT_EQ(buffer_bytes_of(options), options.buffer_bytes);
  options.join.size = 600;
  const auto error = error_from([&] { (void)buffer_bytes_of(options); });
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_THAT(error->what(), HasSubstr("COHORT_BUFFSIZE must be at least 77824 (76K)"));
  options.buffer_bytes = 0;
  options.join.size = 65536;
  EXPECT_NO_THROW((void)buffer_bytes_of(options));
}

}  // namespace
}  // namespace cohort::least_buffer_test
