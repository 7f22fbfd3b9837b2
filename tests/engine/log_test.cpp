// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/log.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace cohort::log_test {
namespace {

using ::testing::MatchesRegex;

std::string logged(LogLevel level, const char* text) {
  ::testing::internal::CaptureStderr();
  log(level, "{} of {}", text, 4);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, warnings_are_printed_and_details_are_not) {
  EXPECT_THAT(logged(LogLevel::error, "a"), MatchesRegex("cohort\\[pid [0-9]+\\] error: a of 4\n"));
  EXPECT_THAT(logged(LogLevel::warn, "a"), MatchesRegex("cohort\\[pid [0-9]+\\] warn: a of 4\n"));
  EXPECT_EQ(logged(LogLevel::info, "a"), "");
  EXPECT_EQ(logged(LogLevel::trace, "a"), "");
}

TEST(Log, a_line_names_the_rank_of_its_thread_unless_there_are_several) {
  std::string alone;
  std::string one;
  std::string several;
  std::thread([&] {
    alone = log_line(LogLevel::info, "x");
    set_log_rank(3);
    set_log_rank(3);
    one = log_line(LogLevel::info, "x");
    set_log_rank(4);
    several = log_line(LogLevel::info, "x");
  }).join();
  EXPECT_THAT(alone, MatchesRegex("cohort\\[pid [0-9]+\\] info: x"));
  EXPECT_THAT(one, MatchesRegex("cohort\\[rank 3 pid [0-9]+\\] info: x"));
  EXPECT_EQ(several, alone);
}

TEST(Log, text_from_outside_cannot_forge_a_line) {
  EXPECT_THAT(
      logged(LogLevel::warn, "x\ncohort[rank 0 pid 1] error: \x1b[2J"),
      MatchesRegex("cohort\\[pid [0-9]+\\] warn: x\\?cohort\\[rank 0 pid 1\\] error: \\?\\[2J of 4\n"));
}

}  // namespace
}  // namespace cohort::log_test
