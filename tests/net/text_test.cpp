// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/text.h>

#include <cohort/net/control_plane.h>
#include <cohort/net/join/join_frame.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cohort::text_test {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(Shortened, leaves_what_fits_and_cuts_the_rest_between_words) {
  EXPECT_EQ(shortened("one two three", 13, "see there"), "one two three");
  EXPECT_EQ(shortened("one two three four five six", 24, "see there"), "one two... (see there)");
  EXPECT_EQ(shortened("one two three four five six", 22, "see there"), "one two... (see there)");
  EXPECT_EQ(shortened("one two three four five six", 21, "see there"), "one... (see there)");
  EXPECT_EQ(shortened(std::string(40, 'x'), 24, "see there"), std::string(9, 'x') + "... (see there)");
  EXPECT_EQ(shortened("one two three four", 5, "see there"), "one t") << "no room for more";
}

/// Words that are told apart by their numbers.
std::string long_text() {
  std::string text = "rank 3 gave up:";
  for (int word = 1000; word < 1300; ++word) text += " word" + std::to_string(word);
  return text;
}

void expect_first_words_of(const std::string& all, std::string_view told) {
  constexpr std::string_view kEnd = "... (cut here: the rest is in what rank 3 printed)";
  EXPECT_THAT(std::string(told), EndsWith(kEnd));
  const std::string_view words = told.substr(0, told.size() - kEnd.size());
  EXPECT_THAT(all, StartsWith(std::string(words) + " ")) << "whole words";
  EXPECT_GT(words.size(), 180U);
}

TEST(ControlMessage, a_cause_that_is_too_long_ends_with_a_word_and_says_where_the_rest_is) {
  const ControlMessage message = ControlMessage::revoke(Error(ErrorKind::PeerAborted, long_text()), 3);
  expect_first_words_of(long_text(), message.cause().message());
  const ControlMessage passed_on = ControlMessage::revoke(message.cause(), 5);
  EXPECT_EQ(passed_on.cause().message(), message.cause().message()) << "it fits now";
}

TEST(ControlMessage, a_cause_keeps_what_programs_branch_on) {
  const Error cause =
      Error(ErrorKind::Mismatch, "types differ").with_culprit(2).with_sequence(7).with_bytes();
  const Error told = ControlMessage::revoke(cause, 3).cause();
  EXPECT_EQ(told.kind(), ErrorKind::Mismatch);
  EXPECT_EQ(told.culprit(), 2U);
  EXPECT_EQ(told.sequence(), 7U);
  EXPECT_TRUE(told.is_of_bytes());
  const Error of_none = ControlMessage::revoke(Error(ErrorKind::PeerAborted, "left"), 3).cause();
  EXPECT_EQ(of_none.sequence(), std::nullopt);
  EXPECT_FALSE(of_none.is_of_bytes());
}

TEST(JoinFrame, a_refusal_that_is_too_long_ends_with_a_word_and_says_where_the_rest_is) {
  const JoinFrameBytes bytes = encode_refusal(Error(ErrorKind::MissingRanks, long_text()), 3);
  expect_first_words_of(long_text(), decode_frame(bytes, "rank 3").refusal->message());
}

}  // namespace
}  // namespace cohort::text_test
