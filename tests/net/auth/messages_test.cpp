// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/messages.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <variant>

namespace cohort::messages_test {
namespace {

TEST(Messages, are_the_same_bytes_on_every_machine) {
  Greeting greeting;
  greeting.identity.rank = 0x01020304;
  greeting.identity.world = 0x05060708;
  greeting.identity.job = job_id("world");
  greeting.identity.incarnation = 0x1122334455667788;
  greeting.identity.pid = 4711;
  greeting.identity.features = 5;
  greeting.identity.lane = 0x0a0b;
  greeting.identity.group = 0x0c0d0e0f;
  greeting.identity.purpose = Purpose::data;
  const Hello hello = encode(greeting, MessageKind::hello);
  const auto byte = [&](std::size_t at) { return std::to_integer<int>(hello[at]); };
  EXPECT_EQ(byte(0), 0x89);
  EXPECT_EQ(byte(8), 4);
  EXPECT_EQ(byte(10), 1);
  EXPECT_EQ(byte(11), 3);
  EXPECT_EQ(byte(12), 0x0b);
  EXPECT_EQ(byte(13), 0x0a);
  EXPECT_EQ(byte(32), 4);
  EXPECT_EQ(byte(35), 1);
  EXPECT_EQ(byte(36), 8);
  EXPECT_EQ(byte(56), 0x0f);
  EXPECT_EQ(byte(59), 0x0c);
  const auto back = decode_greeting(hello, MessageKind::hello, "here");
  ASSERT_TRUE(std::holds_alternative<Greeting>(back));
  EXPECT_EQ(std::get<Greeting>(back).identity, greeting.identity);
}

TEST(Refusal, a_foreign_stream_is_refused_by_its_first_bytes_and_ours_is_not) {
  const Hello honest = encode(Greeting{}, MessageKind::hello);
  for (std::size_t length = 0; length <= kHelloBytes; ++length)
    EXPECT_FALSE(refuse_foreign(std::span(honest).first(length), "here").has_value()) << length;
  for (std::size_t length = 1; length <= kMagic.size(); ++length) {
    Hello hello = honest;
    hello[length - 1] ^= std::byte{0x80};
    EXPECT_TRUE(refuse_foreign(std::span(hello).first(length), "here").has_value()) << length;
  }
}

TEST(Refusal, every_reason_has_a_name_and_an_index) {
  for (std::size_t i = 0; i < kRefusalReasons; ++i)
    EXPECT_NE(to_string(static_cast<RefusalReason>(i)), "unknown");
  EXPECT_EQ(to_string(static_cast<RefusalReason>(kRefusalReasons)), "unknown");
}

TEST(JobId, is_the_beginning_of_the_sha256_of_the_name) {
  EXPECT_EQ(to_string(job_id("abc")), "ba7816bf8f01cfea414140de5dae2223");  // FIPS 180-2, B.1
  EXPECT_NE(job_id("world"), job_id("world "));
}

}  // namespace
}  // namespace cohort::messages_test
