// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/secret_handover.h>

#include <cohort/engine/error.h>
#include <cohort/net/auth/authenticated_socket.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/auth/wire.h>

#include <fmt/format.h>

#include <array>
#include <utility>

namespace cohort {
namespace {

constexpr std::uint64_t kRequestMagic = 0x0a31726365736389;  // \x89 "csecr1" \n: no text, and no HELLO
constexpr std::uint64_t kAnswerMagic = 0x0a31616365736389;
constexpr std::size_t kRequestBytes = 16;
constexpr std::size_t kAnswerBytes = 48;

enum class Answer : std::uint8_t { use_yours = 1, take_this, you_need_mine, have_none };

/// A buffer that held a secret.
template <std::size_t N>
struct Wiped {
  std::array<std::byte, N> bytes{};
  Wiped() = default;
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
  ~Wiped() { crypto::wipe(bytes); }
};

std::array<std::byte, kRequestBytes> encode_request(bool has_secret, Rank rank) {
  std::array<std::byte, kRequestBytes> bytes{};
  wire::Writer writer(bytes);
  writer.put(kRequestMagic);
  writer.put(static_cast<std::uint32_t>(has_secret ? 1 : 0));
  writer.put(rank);
  return bytes;
}

Answer choose(bool has_secret, bool is_made_here) {
  if (has_secret) return is_made_here ? Answer::have_none : Answer::use_yours;
  return is_made_here ? Answer::take_this : Answer::you_need_mine;
}

Refusal handover_failed(RefusalReason reason, std::string text) {
  return Refusal{reason, false, std::move(text)};
}

Task<std::optional<Refusal>> run_offer(Socket& socket, const Secret& secret, bool is_made_here,
                                       const std::string& where) {
  std::array<std::byte, kRequestBytes> request{};
  const bool came = co_await socket.receive(request);
  if (!came)
    co_return handover_failed(RefusalReason::truncated,
                              fmt::format("{} closed the connection at once", where));
  wire::Reader reader(request);
  const auto magic = reader.get<std::uint64_t>();
  const auto has_secret = reader.get<std::uint32_t>();
  const auto rank = reader.get<Rank>();
  if (magic != kRequestMagic || has_secret > 1)
    co_return handover_failed(RefusalReason::not_cohort,
                              fmt::format("{} does not speak cohort's protocol", where));

  const Answer answer = choose(has_secret == 1, is_made_here);
  Wiped<kAnswerBytes> message;
  wire::Writer writer(message.bytes);
  writer.put(kAnswerMagic);
  writer.put(std::uint64_t{static_cast<std::uint8_t>(answer)});
  if (answer == Answer::take_this) writer.put(secret.bytes());
  co_await socket.send(message.bytes);
  if (answer == Answer::use_yours || answer == Answer::take_this) co_return std::nullopt;
  const bool lacks = answer == Answer::you_need_mine;
  co_return handover_failed(
      RefusalReason::bad_mac,
      fmt::format("a process that calls itself rank {} (pid {}) {}", rank, socket.peer_credentials().process,
                  lacks ? "has no secret" : "has a secret, and rank 0 was started without one"));
}

Task<> run_request(Socket& socket, std::optional<Secret>& secret, Rank rank, const std::string& where,
                   std::string_view source) {
  const std::array<std::byte, kRequestBytes> request = encode_request(secret.has_value(), rank);
  co_await socket.send(request);
  Wiped<kAnswerBytes> message;
  const bool came = co_await socket.receive(message.bytes);
  if (!came) throw Error(ErrorKind::LinkFault, fmt::format("{} closed the connection at once", where));
  wire::Reader reader(message.bytes);
  const auto magic = reader.get<std::uint64_t>();
  const auto answer = reader.get<std::uint64_t>();
  if (magic != kAnswerMagic)
    throw Error(
        ErrorKind::ProtocolError,
        fmt::format("whoever listens at {} does not speak cohort's protocol: check who uses this address",
                    where));
  if (answer == static_cast<std::uint64_t>(Answer::you_need_mine))
    throw Error(ErrorKind::AuthFailed,
                fmt::format("rank 0 at {} has a secret and this process (rank {}) has none: give "
                            "all ranks the same COHORT_SECRET_FILE or COHORT_SECRET_FD",
                            where, rank))
        .with_culprit(0);
  if (answer == static_cast<std::uint64_t>(Answer::have_none))
    throw Error(
        ErrorKind::AuthFailed,
        fmt::format(
            "this process (rank {}) has a secret from {}, and rank 0 at {} was started without one: give "
            "all ranks the same secret, or none",
            rank, source, where))
        .with_culprit(0);
  if (answer != static_cast<std::uint64_t>(secret ? Answer::use_yours : Answer::take_this))
    throw Error(ErrorKind::ProtocolError,
                fmt::format("rank 0 at {} gave the answer {} to the question for a secret, "
                            "which is not allowed here",
                            where, answer));
  if (secret) co_return;
  Wiped<Secret::kBytes> bytes;
  reader.get(bytes.bytes);
  secret = Secret::from_bytes(bytes.bytes);
}

}  // namespace

Task<std::optional<Refusal>> offer_secret(Socket& socket, const Secret& secret, bool is_made_here,
                                          std::string where) {
  CancelScope* around = co_await current_scope();
  std::optional<Refusal> failed;
  try {
    Task<std::optional<Refusal>> offer = run_offer(socket, secret, is_made_here, where);
    Task<std::optional<Refusal>> timed = with_deadline(kAuthenticationTime, std::move(offer));
    co_return co_await timed;
  } catch (const Error& error) {
    if (around != nullptr && around->is_cancelled()) throw;
    failed = handover_failed(RefusalReason::truncated,
                             fmt::format("{} did not say who it is: {}", where, error.message()));
  }
  co_return failed;
}

Task<> obtain_secret(Socket& socket, std::optional<Secret>& secret, Rank rank, std::string where,
                     std::string_view source) {
  CancelScope* around = co_await current_scope();
  std::string failure;
  try {
    Task<> request = run_request(socket, secret, rank, where, source);
    Task<> timed = with_deadline(kAuthenticationTime, std::move(request));
    co_await timed;
    co_return;
  } catch (const Error& error) {
    const bool is_cancelled = around != nullptr && around->is_cancelled();
    const bool is_fault =
        error.kind() == ErrorKind::DeadlineExceeded || error.kind() == ErrorKind::SystemError;
    if (is_cancelled || !is_fault) throw;
    failure = fmt::format("{} did not answer: {}", where, error.message());
  }
  throw Error(ErrorKind::LinkFault, failure);
}

}  // namespace cohort
