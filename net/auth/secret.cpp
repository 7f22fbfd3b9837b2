// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/secret.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/net/auth/crypto.h>

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

namespace cohort {
namespace {

constexpr std::string_view kMakeOne = "make one with: (umask 077; openssl rand -hex 32 > FILE)";

bool is_white(std::byte byte) noexcept {
  return byte == std::byte{' '} || byte == std::byte{'\t'} || byte == std::byte{'\r'} ||
         byte == std::byte{'\n'};
}

/// 32 random bytes are all of these once in 10^13 times.
bool is_text(std::byte byte) noexcept {
  return is_white(byte) || (byte > std::byte{' '} && byte < std::byte{0x7f});
}

int hex_value(std::byte byte) noexcept {
  const int c = std::to_integer<int>(byte);
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::span<const std::byte> without_white_end(std::span<const std::byte> text) noexcept {
  while (!text.empty() && is_white(text.back())) text = text.first(text.size() - 1);
  return text;
}

bool is_hex_secret(std::span<const std::byte> text) noexcept {
  return text.size() == 2 * Secret::kBytes &&
         std::all_of(text.begin(), text.end(), [](std::byte digit) { return hex_value(digit) >= 0; });
}

void decode_hex(std::span<const std::byte> digits, std::span<std::byte> out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>(hex_value(digits[2 * i]) * 16 + hex_value(digits[2 * i + 1]));
}

}  // namespace

Secret Secret::random() {
  Secret secret;
  secret.block_ = UndumpedBlock::take();
  crypto::fill_random(secret.block_.bytes());
  return secret;
}

Secret Secret::from_bytes(std::span<const std::byte, kBytes> bytes) {
  Secret secret;
  secret.block_ = UndumpedBlock::take();
  std::ranges::copy(bytes, secret.block_.bytes().begin());
  return secret;
}

Secret Secret::parse(std::span<const std::byte> material, std::string_view source) {
  const bool text = std::all_of(material.begin(), material.end(), is_text);
  if (!text && material.size() == kBytes) return from_bytes(material.first<kBytes>());
  if (!text)
    throw Error(
        ErrorKind::AuthFailed,
        fmt::format("the secret from {} is {} bytes that are not printable ASCII text: give {} raw bytes, {} "
                    "hexadecimal digits or text of at least {} characters; {}",
                    source, material.size(), kBytes, 2 * kBytes, kLeastCharacters, kMakeOne));

  const std::span<const std::byte> trimmed = without_white_end(material);
  if (trimmed.size() < kLeastCharacters)
    throw Error(ErrorKind::AuthFailed,
                fmt::format("the secret from {} {}: it needs at least {} characters; {}", source,
                            trimmed.empty() ? std::string("is empty")
                                            : fmt::format("is too short with {} characters", trimmed.size()),
                            kLeastCharacters, kMakeOne));
  Secret secret;
  secret.block_ = UndumpedBlock::take();
  if (is_hex_secret(trimmed)) {
    decode_hex(trimmed, secret.block_.bytes());
  } else {
    constexpr std::string_view kSalt = "cohort1 secret";
    constexpr std::string_view kInfo = "from text";
    crypto::hkdf_sha256(trimmed, std::as_bytes(std::span(kSalt)), std::as_bytes(std::span(kInfo)),
                        secret.block_.bytes());
  }
  return secret;
}

Secret Secret::parse(std::vector<std::byte>&& material, std::string_view source) {
  struct Wiped {
    std::vector<std::byte> bytes;
    ~Wiped() { crypto::wipe(bytes); }
  };
  const Wiped taken{std::move(material)};
  return parse(std::span<const std::byte>(taken.bytes), source);
}

std::span<const std::byte, Secret::kBytes> Secret::bytes() const noexcept {
  COHORT_ASSERT(is_set(), "this Secret was moved from or never set");
  return block_.bytes();
}

SecretOfOptions::SecretOfOptions(const SecretOfOptions& other) : std::optional<Secret>() {
  if (other && other->is_set()) emplace(Secret::from_bytes(other->bytes()));
}

SecretOfOptions& SecretOfOptions::operator=(const SecretOfOptions& other) {
  return *this = SecretOfOptions(other);
}

void PrintTo(const Secret& secret, std::ostream* out) {
  *out << (secret.is_set() ? "a secret" : "no secret");
}

}  // namespace cohort
