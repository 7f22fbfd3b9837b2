// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>

#include <cohort/engine/assert.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace cohort::error_test {
namespace {

TEST(Error, says_its_kind_then_its_message) {
  const Error error(ErrorKind::PeerDied, "rank 3 is gone");
  EXPECT_STREQ(error.what(), "PeerDied: rank 3 is gone");
  EXPECT_EQ(error.message(), "rank 3 is gone");
  EXPECT_EQ(error.kind(), ErrorKind::PeerDied);
  EXPECT_EQ(error.culprit(), std::nullopt);
}

TEST(Error, names_a_culprit_without_changing_the_original) {
  const Error error(ErrorKind::PeerDied, "a rank is gone");
  const Error named = error.with_culprit(3);
  EXPECT_EQ(named.culprit(), 3U);
  EXPECT_EQ(named.kind(), error.kind());
  EXPECT_STREQ(named.what(), error.what());
  EXPECT_EQ(error.culprit(), std::nullopt);
}

TEST(Error, keeps_what_is_known_of_it_in_other_words) {
  const Error error =
      Error(ErrorKind::Mismatch, "types differ").with_culprit(3).with_sequence(7).with_bytes();
  const Error told = error.with_message("elsewhere: types differ");
  EXPECT_STREQ(told.what(), "Mismatch: elsewhere: types differ");
  EXPECT_EQ(told.kind(), ErrorKind::Mismatch);
  EXPECT_EQ(told.culprit(), 3U);
  EXPECT_EQ(told.sequence(), 7U);
  EXPECT_TRUE(told.is_of_bytes());
}

TEST(Error, is_of_no_collective_unless_that_is_said) {
  const Error error(ErrorKind::PeerDied, "a rank is gone");
  EXPECT_EQ(error.sequence(), std::nullopt);
  EXPECT_EQ(error.with_sequence(0).sequence(), std::nullopt);
  EXPECT_FALSE(error.is_of_bytes());
}

TEST(Error, copies_share_one_text) {
  const Error error(ErrorKind::Revoked, "given up");
  const Error copy = error;  // NOLINT: the copy is what is tested
  EXPECT_EQ(static_cast<const void*>(copy.what()), static_cast<const void*>(error.what()));
}

TEST(Error, survives_being_thrown_and_caught_as_a_standard_exception) {
  try {
    throw Error(ErrorKind::LinkFault, "cable cut");
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "LinkFault: cable cut");
  }
}

TEST(Error, every_kind_has_a_name_of_its_own) {
  std::set<std::string> names;
  int kinds = 0;
  for (auto kind = ErrorKind::InvalidArgument; kind <= ErrorKind::Internal;
       kind = static_cast<ErrorKind>(static_cast<int>(kind) + 1)) {
    names.emplace(to_string(kind));
    ++kinds;
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kinds));
  EXPECT_FALSE(names.contains("Unknown"));
  EXPECT_EQ(to_string(static_cast<ErrorKind>(200)), "Unknown");
}

TEST(Error, failed_system_call_says_what_was_done_why_it_failed_and_the_number) {
  const Error error = system_error(ECONNREFUSED, "connecting to 127.0.0.1:1");
  EXPECT_EQ(error.kind(), ErrorKind::SystemError);
  EXPECT_STREQ(error.what(), "SystemError: connecting to 127.0.0.1:1: Connection refused (errno 111)");
}

TEST(Error, exhausted_resources_are_told_apart_from_other_failures) {
  for (const int number : {ENOMEM, ENOBUFS, ENOSPC, EMFILE, ENFILE})
    EXPECT_EQ(system_error(number, "opening").kind(), ErrorKind::ResourceLimit) << number;
  for (const int number : {EPERM, EINVAL, EIO, ECONNRESET})
    EXPECT_EQ(system_error(number, "opening").kind(), ErrorKind::SystemError) << number;
}

TEST(Error, says_which_limit_to_raise_where_that_is_one) {
  EXPECT_NE(std::string(system_error(EMFILE, "opening").what()).find("ulimit -n"), std::string::npos);
  EXPECT_NE(std::string(system_error(ENFILE, "opening").what()).find("fs.file-max"), std::string::npos);
}

TEST(Error, says_what_to_look_at_where_there_is_no_way) {
  for (const int number : {ENETUNREACH, EHOSTUNREACH}) {
    const Error error = system_error(number, "connecting to 10.0.0.9:1");
    EXPECT_EQ(error.kind(), ErrorKind::SystemError);
    EXPECT_NE(std::string(error.what()).find("ip route"), std::string::npos) << error.what();
  }
}

TEST(AssertDeathTest, failed_claim_prints_itself_and_its_values) {
  const int got = 3;
  EXPECT_DEATH(COHORT_ASSERT(got == 4, "got {} of {}", got, 4),
               "^cohort: tests/engine/error_test.cpp:[0-9]+: assertion failed: got == 4: got 3 of 4");
}

TEST(Assert, true_claim_evaluates_its_values_not_at_all) {
  bool evaluated = false;
  auto value = [&] { return evaluated = true; };
  COHORT_ASSERT(true, "{}", value());
  EXPECT_FALSE(evaluated);
}

}  // namespace
}  // namespace cohort::error_test
