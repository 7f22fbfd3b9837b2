// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/auth/identity.h>
#include <cohort/net/auth/refusal.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

/// The three messages of the handshake as bytes: fixed sizes, little-endian, every offset in messages.cpp.
/// Nothing here allocates by what a peer says, and nothing here is authentic: see handshake.h.
namespace cohort {

/// Begins every message. The first byte is no text, the last one does not survive a text-mode transfer.
inline constexpr std::array<std::byte, 8> kMagic{std::byte{0x89}, std::byte{'C'}, std::byte{'O'},
                                                 std::byte{'H'},  std::byte{'O'}, std::byte{'R'},
                                                 std::byte{'T'},  std::byte{'\n'}};

/// Of the handshake. What no later version may change: the magic, the offsets of version and kind, and the
/// sizes of HELLO and CHALLENGE; so that different versions can say so instead of waiting for each other.
inline constexpr std::uint16_t kHandshakeVersion = 4;

inline constexpr std::size_t kHelloBytes = 128;
inline constexpr std::size_t kChallengeBytes = 128;
inline constexpr std::size_t kProofBytes = 48;

using Hello = std::array<std::byte, kHelloBytes>;
using Challenge = std::array<std::byte, kChallengeBytes>;
using Proof = std::array<std::byte, kProofBytes>;

/// Drawn anew for every connection: what makes an old recording worthless.
using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

enum class MessageKind : std::uint8_t { hello = 1, challenge = 2, proof = 3 };

/// What HELLO and CHALLENGE carry: the same layout, but a HELLO has no MAC (zero).
struct Greeting {
  Identity identity;
  Nonce nonce{};
  Mac mac{};
};

/// Bytes of a greeting that come before its MAC.
inline constexpr std::size_t kGreetingFieldBytes = 96;

/// How a connecting process answers a CHALLENGE.
enum class Verdict : std::uint8_t {
  accepts = 0,
  declines = 1,      ///< it believes us, and does not want this connection
  other_secret = 2,  ///< it does not believe us; without a MAC, so that a stranger's listener learns nothing
};

struct ProofFields {
  Verdict verdict = Verdict::accepts;
  Mac mac{};
};

[[nodiscard]] std::array<std::byte, 128> encode(const Greeting& greeting, MessageKind kind) noexcept;
[[nodiscard]] Proof encode(const ProofFields& proof) noexcept;

/// A CHALLENGE that only tells our version, for a HELLO of another one.
[[nodiscard]] Challenge encode_version_notice() noexcept;

/// Refuses whatever encode() would not have written, with the reason. `bytes` may be too short, as when the
/// stream ended. `where` is the peer's address, for the text.
[[nodiscard]] std::variant<Greeting, Refusal> decode_greeting(std::span<const std::byte> bytes,
                                                              MessageKind expected, std::string_view where);
[[nodiscard]] std::variant<ProofFields, Refusal> decode_proof(std::span<const std::byte> bytes,
                                                              std::string_view where);

}  // namespace cohort
