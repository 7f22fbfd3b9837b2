// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/secret.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cohort::secret_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class T>
concept Streamable = requires(std::ostream& out, const T& value) {
  out << value;
};

static_assert(!std::is_copy_constructible_v<Secret> && !std::is_copy_assignable_v<Secret>);
static_assert(std::is_nothrow_move_constructible_v<Secret> && std::is_nothrow_move_assignable_v<Secret>);
static_assert(!Streamable<Secret>);
static_assert(!fmt::is_formattable<Secret>::value);

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::string parsed(std::string_view text) { return hex_of(Secret::parse(bytes_of(text), "a test").bytes()); }

std::string refusal_of(std::span<const std::byte> material) {
  try {
    (void)Secret::parse(material, "/run/job/secret");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::AuthFailed);
    return error.what();
  }
  return "accepted";
}

constexpr std::string_view kHex = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
constexpr std::string_view kHexLower = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

TEST(Secret, raw_bytes_and_their_hexadecimal_digits_are_the_same_secret) {
  std::vector<std::byte> raw(Secret::kBytes);
  for (std::size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::byte>(i);
  EXPECT_EQ(hex_of(Secret::parse(raw, "a test").bytes()), kHexLower);
  EXPECT_EQ(parsed(kHex), kHexLower);
  EXPECT_EQ(parsed(std::string(kHex) + "\n"), kHexLower);
}

TEST(Secret, white_space_at_the_end_of_text_does_not_count_at_any_length) {
  for (std::size_t length = Secret::kLeastCharacters; length <= 70; ++length) {
    const std::string text(length, 'x');
    EXPECT_EQ(parsed(text), parsed(text + "\n")) << length;
    EXPECT_EQ(parsed(text), parsed(text + " \r\n")) << length;
  }
}

TEST(Secret, different_texts_are_different_secrets) {
  EXPECT_NE(parsed("sixteen letters."), parsed("sixteen letters!"));
  EXPECT_NE(parsed("sixteen letters."), parsed(" sixteen letters."));
  EXPECT_NE(parsed(kHex), parsed(kHex.substr(0, 63)));
}

TEST(Secret, too_short_an_answer_says_how_short_and_how_to_make_one) {
  EXPECT_THAT(refusal_of(bytes_of("fifteen letters")),
              AllOf(HasSubstr("/run/job/secret"), HasSubstr("too short with 15 characters"),
                    HasSubstr("at least 16"), HasSubstr("openssl rand")));
  EXPECT_THAT(refusal_of(bytes_of("fifteen letters  \n")), HasSubstr("too short with 15 characters"));
  EXPECT_THAT(refusal_of({}), HasSubstr("is empty"));
  EXPECT_THAT(refusal_of(bytes_of("\n\n")), HasSubstr("is empty"));
  EXPECT_EQ(refusal_of(bytes_of("sixteen letters.")), "accepted");
}

TEST(Secret, bytes_that_are_no_text_must_be_32) {
  for (const std::size_t size : {1u, 16u, 31u, 33u, 64u}) {
    const std::vector<std::byte> raw(size, std::byte{0xee});
    EXPECT_THAT(refusal_of(raw), HasSubstr(fmt::format("is {} bytes that are not printable", size))) << size;
  }
  const std::vector<std::byte> raw(32, std::byte{0xee});
  EXPECT_EQ(refusal_of(raw), "accepted");
}

TEST(Secret, errors_do_not_quote_the_secret) {
  EXPECT_THAT(refusal_of(bytes_of("hunter2")), ::testing::Not(HasSubstr("hunter2")));
}

TEST(Secret, random_ones_differ) {
  EXPECT_NE(hex_of(Secret::random().bytes()), hex_of(Secret::random().bytes()));
}

/// Its memory stays mapped when it is given back.
TEST(Secret, is_wiped_when_it_dies_and_moves_without_leaving_a_copy) {
  std::array<std::byte, Secret::kBytes> pattern;
  pattern.fill(std::byte{0xa5});
  const std::byte* place = nullptr;
  const auto holds_pattern = [&] {
    return std::count(place, place + Secret::kBytes, std::byte{0xa5}) == Secret::kBytes;
  };
  {
    Secret secret = Secret::from_bytes(pattern);
    place = secret.bytes().data();
    EXPECT_TRUE(holds_pattern());
    Secret moved(std::move(secret));
    EXPECT_EQ(moved.bytes().data(), place);
    EXPECT_FALSE(secret.is_set());  // NOLINT(bugprone-use-after-move): that is the promise
    secret = std::move(moved);
    EXPECT_EQ(secret.bytes().data(), place);
    EXPECT_FALSE(moved.is_set());  // NOLINT(bugprone-use-after-move)
  }
  EXPECT_FALSE(holds_pattern());
  Secret other = Secret::random();
  place = other.bytes().data();
  other = Secret::from_bytes(pattern);
  EXPECT_EQ(std::count(place, place + Secret::kBytes, std::byte{0}), Secret::kBytes) << "wiped where it was";
}

TEST(Secret, parsing_a_vector_takes_it_away) {
  std::vector<std::byte> material = bytes_of("sixteen letters.");
  const Secret secret = Secret::parse(std::move(material), "a test");
  EXPECT_TRUE(secret.is_set());
  EXPECT_TRUE(material.empty());  // NOLINT(bugprone-use-after-move): that is the promise
}

TEST(Secret, is_printed_without_its_bytes) {
  EXPECT_EQ(::testing::PrintToString(Secret::random()), "a secret");
  EXPECT_EQ(::testing::PrintToString(Secret()), "no secret");
}

TEST(SecretDeathTest, using_one_that_holds_nothing_is_a_bug) {
  const Secret none;
  EXPECT_DEATH((void)none.bytes(), "moved from or never set");
}

}  // namespace
}  // namespace cohort::secret_test
