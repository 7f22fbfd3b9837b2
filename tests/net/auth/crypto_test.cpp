// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/crypto.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::crypto_test {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

TEST(Crypto, hmac_sha256_answers_as_rfc_4231_says) {
  // Test case 2, its text in two parts.
  const std::vector<std::byte> key = bytes_of("Jefe");
  const std::vector<std::byte> first = bytes_of("what do ya want ");
  const std::vector<std::byte> second = bytes_of("for nothing?");
  EXPECT_EQ(hex_of(crypto::hmac_sha256(key, {first, second})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Crypto, hkdf_sha256_answers_as_rfc_5869_says) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});
  std::vector<std::byte> salt(13);
  std::vector<std::byte> info(10);
  for (std::size_t i = 0; i < salt.size(); ++i) salt[i] = static_cast<std::byte>(i);
  for (std::size_t i = 0; i < info.size(); ++i) info[i] = static_cast<std::byte>(0xf0 + i);
  std::vector<std::byte> out(42);
  crypto::hkdf_sha256(secret, salt, info, out);
  EXPECT_EQ(hex_of(out),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(Crypto, comparison_sees_every_byte) {
  const std::vector<std::byte> bytes(32, std::byte{7});
  EXPECT_TRUE(crypto::is_equal(bytes, bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> other = bytes;
    other[i] ^= std::byte{0x80};
    EXPECT_FALSE(crypto::is_equal(bytes, other)) << i;
  }
  EXPECT_FALSE(crypto::is_equal(bytes, std::span(bytes).first(31)));
}

}  // namespace
}  // namespace cohort::crypto_test
