// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/refusal.h>

#include <cohort/net/auth/messages.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

bool starts_with(std::span<const std::byte> bytes, std::string_view prefix) noexcept {
  return bytes.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), bytes.begin(),
                    [](char expected, std::byte found) { return static_cast<std::byte>(expected) == found; });
}

std::string_view known_protocol(std::span<const std::byte> first) noexcept {
  constexpr std::array kHttp{"GET ",     "HEAD ",    "POST ",  "PUT ",     "DELETE ", "TRACE ",
                             "CONNECT ", "OPTIONS ", "PATCH ", "PRI * HT", "HTTP/"};
  for (const std::string_view prefix : kHttp)
    if (starts_with(first, prefix)) return "HTTP";
  if (starts_with(first, "\x16\x03")) return "TLS";
  if (starts_with(first, "SSH-")) return "SSH";
  return {};
}

std::string escaped(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    const bool is_plain = value > 0x20 && value < 0x7f && value != '\\' && value != '"';
    text += is_plain ? fmt::format("{}", static_cast<char>(value)) : fmt::format("\\x{:02x}", value);
  }
  return text;
}

}  // namespace

std::string_view to_string(RefusalReason reason) noexcept {
  switch (reason) {
    case RefusalReason::not_cohort: return "not_cohort";
    case RefusalReason::truncated: return "truncated";
    case RefusalReason::malformed: return "malformed";
    case RefusalReason::version: return "version";
    case RefusalReason::bad_mac: return "bad_mac";
    case RefusalReason::wrong_job: return "wrong_job";
    case RefusalReason::world_mismatch: return "world_mismatch";
    case RefusalReason::rank_range: return "rank_range";
    case RefusalReason::same_rank: return "same_rank";
    case RefusalReason::wrong_purpose: return "wrong_purpose";
    case RefusalReason::unexpected_peer: return "unexpected_peer";
    case RefusalReason::encryption: return "encryption";
    case RefusalReason::declined: return "declined";
  }
  return "unknown";
}

Error Refusal::to_error() const {
  switch (reason) {
    case RefusalReason::not_cohort:
    case RefusalReason::malformed:
    case RefusalReason::wrong_purpose: return Error(ErrorKind::ProtocolError, text);
    case RefusalReason::truncated: return Error(ErrorKind::LinkFault, text);
    case RefusalReason::version:
    case RefusalReason::wrong_job:
    case RefusalReason::encryption:
    case RefusalReason::unexpected_peer: return Error(ErrorKind::Mismatch, text);
    case RefusalReason::bad_mac: return Error(ErrorKind::AuthFailed, text);
    case RefusalReason::world_mismatch:
    case RefusalReason::rank_range: return Error(ErrorKind::WorldSize, text);
    case RefusalReason::same_rank: return Error(ErrorKind::DuplicateRank, text);
    case RefusalReason::declined: return Error(ErrorKind::PeerAborted, text);
  }
  return Error(ErrorKind::Internal, text);
}

std::optional<Refusal> refuse_foreign(std::span<const std::byte> first, std::string_view where) {
  const std::span<const std::byte> head = first.first(std::min(first.size(), kMagic.size()));
  if (std::equal(head.begin(), head.end(), kMagic.begin())) return std::nullopt;
  const std::string_view protocol = known_protocol(head);
  return Refusal{
      RefusalReason::not_cohort, false,
      fmt::format("{} does not speak cohort's protocol: its first bytes are \"{}\"{}{}; nothing of it was "
                  "taken, check who uses this port",
                  where, escaped(head), protocol.empty() ? "" : ", as in ", protocol)};
}

}  // namespace cohort
