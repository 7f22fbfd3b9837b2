// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/messages.h>

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

namespace cohort {
namespace {

/// Hash and MAC in use; another value would be another version in all but name, and is refused as malformed.
constexpr std::uint16_t kSuiteSha256 = 1;

// All messages.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 8;  // 2 bytes
constexpr std::size_t kKindAt = 10;
// HELLO and CHALLENGE.
constexpr std::size_t kPurposeAt = 11;
constexpr std::size_t kLaneAt = 12;         // 2
constexpr std::size_t kSuiteAt = 14;        // 2
constexpr std::size_t kJobAt = 16;          // 16
constexpr std::size_t kRankAt = 32;         // 4
constexpr std::size_t kWorldAt = 36;        // 4
constexpr std::size_t kIncarnationAt = 40;  // 8
constexpr std::size_t kPidAt = 48;          // 4
constexpr std::size_t kFeaturesAt = 52;     // 4
constexpr std::size_t kGroupAt = 56;        // 4
constexpr std::size_t kEncryptionAt = 60;
constexpr std::size_t kReservedAt = 61;  // 3, zero
constexpr std::size_t kReservedBytes = 3;
constexpr std::size_t kNonceAt = 64;                 // 32
constexpr std::size_t kMacAt = kGreetingFieldBytes;  // 32
static_assert(kMacAt + sizeof(Mac) == kHelloBytes && kHelloBytes == kChallengeBytes);
// PROOF.
constexpr std::size_t kVerdictAt = 11;
constexpr std::size_t kProofReservedAt = 12;  // 4, zero
constexpr std::size_t kProofReservedBytes = 4;
constexpr std::size_t kProofMacAt = 16;  // 32
static_assert(kProofMacAt + sizeof(Mac) == kProofBytes);

template <class Enum>
constexpr std::underlying_type_t<Enum> code(Enum value) noexcept {
  return static_cast<std::underlying_type_t<Enum>>(value);
}

template <std::unsigned_integral T>
void put(std::span<std::byte> message, std::size_t at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i) message[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
T get(std::span<const std::byte> message, std::size_t at) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(message[at + i]) << (8 * i)));
  return value;
}

template <std::size_t N>
void put(std::span<std::byte> message, std::size_t at, const std::array<std::byte, N>& bytes) noexcept {
  std::copy(bytes.begin(), bytes.end(), message.subspan(at, N).begin());
}

template <std::size_t N>
std::array<std::byte, N> get_bytes(std::span<const std::byte> message, std::size_t at) noexcept {
  std::array<std::byte, N> bytes;
  std::copy_n(message.subspan(at, N).begin(), N, bytes.begin());
  return bytes;
}

bool is_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

void put_head(std::span<std::byte> message, MessageKind kind) noexcept {
  put(message, kMagicAt, kMagic);
  put(message, kVersionAt, kHandshakeVersion);
  put(message, kKindAt, code(kind));
}

std::string_view name_of(MessageKind kind) noexcept {
  switch (kind) {
    case MessageKind::hello: return "HELLO";
    case MessageKind::challenge: return "CHALLENGE";
    case MessageKind::proof: return "PROOF";
  }
  return "message";
}

Refusal malformed(std::string_view where, MessageKind expected, std::string_view field, std::uint64_t found,
                  std::string_view allowed) {
  return Refusal{
      RefusalReason::malformed, false,
      fmt::format("{} sent a {} that is not allowed: {} is {}, expected {}; it is broken or hostile, the "
                  "connection is closed",
                  where, name_of(expected), field, found, allowed)};
}

/// Size, magic, version and kind.
std::optional<Refusal> check_head(std::span<const std::byte> bytes, std::size_t size, MessageKind expected,
                                  std::string_view where) {
  if (std::optional<Refusal> foreign = refuse_foreign(bytes, where)) return foreign;
  if (bytes.size() != size)
    return Refusal{
        RefusalReason::truncated, false,
        fmt::format("{} closed the connection after {} of the {} bytes of its {}: it ended, or refused this "
                    "connection; its own log says why",
                    where, bytes.size(), size, name_of(expected))};
  const auto version = get<std::uint16_t>(bytes, kVersionAt);
  if (version != kHandshakeVersion)
    return Refusal{
        RefusalReason::version, false,
        fmt::format("{} speaks version {} of the handshake, this process version {}: run the same build of "
                    "cohort on all ranks",
                    where, version, kHandshakeVersion)};
  const auto kind = get<std::uint8_t>(bytes, kKindAt);
  if (kind != code(expected))
    return malformed(where, expected, "the kind of message", kind, fmt::format("{}", code(expected)));
  return std::nullopt;
}

bool is_purpose(std::uint8_t value) noexcept {
  return value == code(Purpose::join) || value == code(Purpose::control) || value == code(Purpose::data);
}

}  // namespace

std::array<std::byte, 128> encode(const Greeting& greeting, MessageKind kind) noexcept {
  std::array<std::byte, 128> message{};
  const Identity& identity = greeting.identity;
  put_head(message, kind);
  put(message, kPurposeAt, code(identity.purpose));
  put(message, kLaneAt, identity.lane);
  put(message, kSuiteAt, kSuiteSha256);
  put(message, kJobAt, identity.job.bytes);
  put(message, kRankAt, identity.rank);
  put(message, kWorldAt, identity.world);
  put(message, kIncarnationAt, identity.incarnation);
  put(message, kPidAt, identity.pid);
  put(message, kFeaturesAt, identity.features);
  put(message, kGroupAt, identity.group);
  put(message, kEncryptionAt, code(identity.encryption));
  put(message, kNonceAt, greeting.nonce);
  put(message, kMacAt, greeting.mac);
  return message;
}

Proof encode(const ProofFields& proof) noexcept {
  Proof message{};
  put_head(message, MessageKind::proof);
  put(message, kVerdictAt, code(proof.verdict));
  put(message, kProofMacAt, proof.mac);
  return message;
}

Challenge encode_version_notice() noexcept {
  Challenge message{};
  put_head(message, MessageKind::challenge);
  return message;
}

std::variant<Greeting, Refusal> decode_greeting(std::span<const std::byte> bytes, MessageKind expected,
                                                std::string_view where) {
  if (std::optional<Refusal> refusal = check_head(bytes, kHelloBytes, expected, where))
    return *std::move(refusal);
  const auto purpose = get<std::uint8_t>(bytes, kPurposeAt);
  if (!is_purpose(purpose)) return malformed(where, expected, "the purpose", purpose, "1, 2 or 3");
  const auto suite = get<std::uint16_t>(bytes, kSuiteAt);
  if (suite != kSuiteSha256)
    return malformed(where, expected, "the suite", suite, fmt::format("{}", kSuiteSha256));
  if (!is_zero(bytes.subspan(kReservedAt, kReservedBytes)))
    return malformed(where, expected, "a reserved field", get<std::uint8_t>(bytes, kReservedAt), "0");
  const auto encryption = get<std::uint8_t>(bytes, kEncryptionAt);
  if (encryption > code(Encryption::forbidden))
    return malformed(where, expected, "what it wants encrypted", encryption, "0, 1 or 2");
  const auto group = get<std::uint32_t>(bytes, kGroupAt);
  if (group != 0 && purpose != code(Purpose::data))
    return malformed(where, expected, "the group of a connection that is of none", group, "0");

  Greeting greeting;
  greeting.identity.job.bytes = get_bytes<16>(bytes, kJobAt);
  greeting.identity.rank = get<std::uint32_t>(bytes, kRankAt);
  greeting.identity.world = get<std::uint32_t>(bytes, kWorldAt);
  greeting.identity.incarnation = get<std::uint64_t>(bytes, kIncarnationAt);
  greeting.identity.pid = get<std::uint32_t>(bytes, kPidAt);
  greeting.identity.purpose = static_cast<Purpose>(purpose);
  greeting.identity.lane = get<std::uint16_t>(bytes, kLaneAt);
  greeting.identity.group = group;
  greeting.identity.encryption = static_cast<Encryption>(encryption);
  greeting.identity.features = get<std::uint32_t>(bytes, kFeaturesAt);
  greeting.nonce = get_bytes<32>(bytes, kNonceAt);
  greeting.mac = get_bytes<32>(bytes, kMacAt);
  const auto set = std::find_if(greeting.mac.begin(), greeting.mac.end(),
                                [](std::byte byte) { return byte != std::byte{0}; });
  if (expected == MessageKind::hello && set != greeting.mac.end())
    return malformed(where, expected, "a byte of its unused MAC", std::to_integer<unsigned>(*set), "0");
  return greeting;
}

std::variant<ProofFields, Refusal> decode_proof(std::span<const std::byte> bytes, std::string_view where) {
  if (std::optional<Refusal> refusal = check_head(bytes, kProofBytes, MessageKind::proof, where))
    return *std::move(refusal);
  const auto verdict = get<std::uint8_t>(bytes, kVerdictAt);
  if (verdict > code(Verdict::other_secret))
    return malformed(where, MessageKind::proof, "the verdict", verdict, "0, 1 or 2");
  if (!is_zero(bytes.subspan(kProofReservedAt, kProofReservedBytes)))
    return malformed(where, MessageKind::proof, "a reserved field",
                     get<std::uint32_t>(bytes, kProofReservedAt), "0");
  return ProofFields{static_cast<Verdict>(verdict), get_bytes<32>(bytes, kProofMacAt)};
}

}  // namespace cohort
