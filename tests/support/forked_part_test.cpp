// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/forked_part.h>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>

namespace cohort::test::forked_part_test {
namespace {

TEST(ForkedPart, that_succeeds_says_nothing) {
  ForkedPart part("the part", [] { EXPECT_EQ(1, 1); });
  part.join();
}

TEST(ForkedPart, failures_are_told_with_their_place_and_words) {
  ForkedPart part("the part", [] {
    EXPECT_EQ(1, 2) << "not the last failure";
    EXPECT_EQ(3, 4) << "the last one";
  });
  EXPECT_NONFATAL_FAILURE(part.join(), "forked_part_test.cpp");
}

TEST(ForkedPart, what_it_throws_is_told) {
  ForkedPart part("the part", [] { throw std::runtime_error("out of coffee"); });
  EXPECT_NONFATAL_FAILURE(part.join(), "threw out of coffee");
}

TEST(ForkedPart, its_death_is_told_after_what_failed_before) {
  ForkedPart part("the part", [] {
    EXPECT_EQ(1, 2) << "before it died";
    ::raise(SIGKILL);
  });
  ::testing::TestPartResultArray told;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &told);
    part.join();
  }
  ASSERT_EQ(told.size(), 2);
  EXPECT_NE(std::string(told.GetTestPartResult(0).message()).find("before it died"), std::string::npos);
  EXPECT_NE(std::string(told.GetTestPartResult(1).message()).find("ended by signal 9"), std::string::npos);
}

}  // namespace
}  // namespace cohort::test::forked_part_test
