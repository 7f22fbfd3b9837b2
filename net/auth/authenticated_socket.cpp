// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/authenticated_socket.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/host.h>
#include <cohort/net/auth/tls.h>

#include <fmt/format.h>

#include <array>
#include <utility>

namespace cohort {
namespace {

/// Follows the proof: the client would otherwise not know that its own was believed.
constexpr std::byte kTaken{0x06};

/// As many bytes as come before the stream ends or turns out to be none of ours.
Task<std::size_t> receive_message(Socket& socket, std::span<std::byte> into, std::string_view where) {
  std::size_t done = 0;
  while (done < into.size()) {
    const int result = co_await socket.receive_some(into.subspan(done));
    if (result <= 0) break;
    done += static_cast<std::size_t>(result);
    if (refuse_foreign(into.first(done), where)) break;
  }
  co_return done;
}

/// Whether this scope's own time is over, rather than that of the caller: only the first may be a value.
bool is_only_own_deadline(const Error& error, CancelScope* around) {
  return error.kind() == ErrorKind::DeadlineExceeded && (around == nullptr || !around->is_cancelled());
}

bool is_of_connection(const Error& error) {
  return error.kind() == ErrorKind::SystemError || (error.kind() == ErrorKind::LinkFault && !error.culprit());
}

/// What does not leave this host needs no encryption: whoever could read it there, could read the processes.
void ask_for_what_this_needs(const Socket& socket, Identity& mine) {
  if (mine.encryption == Encryption::required && stays_in_host(socket)) mine.encryption = Encryption::allowed;
}

Error to_error(const Refusal& refusal, const Callee& callee) {
  const Error error = refusal.to_error();
  return callee.rank ? error.with_culprit(*callee.rank) : error;
}

Task<Identity> run_client(Socket& socket, const Secret& secret, const Identity& mine, const Callee& callee) {
  ClientHandshake handshake(secret, mine, callee);
  co_await socket.send(handshake.hello());
  Challenge buffer{};
  const std::size_t got = co_await receive_message(socket, buffer, callee.where);
  const Step<Proof> step = handshake.on_challenge(std::span(buffer).first(got));
  if (step.send) co_await socket.send(*step.send);
  if (step.refusal) throw to_error(*step.refusal, callee);
  if (const std::optional<Secret> key = handshake.connection_key()) co_await encrypt_as_client(socket, *key);
  std::array<std::byte, 1> verdict{};
  const bool came = co_await socket.receive(verdict);
  if (!came || verdict[0] != kTaken)
    throw Error(ErrorKind::LinkFault, "it closed the connection instead of taking it; its own log says why");
  co_return handshake.peer();
}

Task<Admission> run_server(Socket& socket, const Secret& secret, const Identity& mine, const Service& service,
                           const std::string& where) {
  Admission admission;
  ServerHandshake handshake(secret, mine, service, where);
  Hello hello{};
  const std::size_t hello_bytes = co_await receive_message(socket, hello, where);
  const Step<Challenge> step = handshake.on_hello(std::span(hello).first(hello_bytes));
  const auto claim = decode_greeting(std::span(hello).first(hello_bytes), MessageKind::hello, where);
  if (const auto* greeting = std::get_if<Greeting>(&claim)) admission.claimed = greeting->identity;
  if (step.send) co_await socket.send(*step.send);
  admission.refusal = step.refusal;
  if (admission.refusal) co_return admission;

  Proof proof{};
  const std::size_t proof_bytes = co_await receive_message(socket, proof, where);
  admission.refusal = handshake.on_proof(std::span(proof).first(proof_bytes));
  if (admission.refusal) co_return admission;
  if (const std::optional<Secret> key = handshake.connection_key()) co_await encrypt_as_server(socket, *key);
  admission.peer = handshake.peer();
  co_return admission;
}

}  // namespace

Task<Identity> authenticate_as_client(Socket& socket, const Secret& secret, Identity mine,
                                      const Callee& callee, std::optional<Duration> patience) {
  CancelScope* around = co_await current_scope();
  std::string failure;
  try {
    ask_for_what_this_needs(socket, mine);
    Task<Identity> handshake = run_client(socket, secret, mine, callee);
    if (patience) handshake = with_deadline(*patience, std::move(handshake));
    co_return co_await handshake;
  } catch (const Error& error) {
    const bool is_silent = patience && is_only_own_deadline(error, around);
    if (!is_silent && !is_of_connection(error)) throw;
    failure = is_silent ? fmt::format("{} did not answer for {} s", callee.where,
                                      std::chrono::duration_cast<std::chrono::seconds>(*patience).count())
                        : fmt::format("{}: {}", callee.where, error.message());
  }
  const Error fault(ErrorKind::LinkFault, failure);
  throw callee.rank ? fault.with_culprit(*callee.rank) : fault;
}

Task<Admission> authenticate_as_server(Socket& socket, const Secret& secret, Identity mine, Service service,
                                       std::string where) {
  CancelScope* around = co_await current_scope();
  Admission failed;
  try {
    ask_for_what_this_needs(socket, mine);
    Task<Admission> handshake = run_server(socket, secret, mine, service, where);
    Task<Admission> timed = with_deadline(kAuthenticationTime, std::move(handshake));
    co_return co_await timed;
  } catch (const Error& error) {
    const bool is_silent = is_only_own_deadline(error, around);
    if (!is_silent && !is_of_connection(error)) throw;
    failed.refusal = Refusal{RefusalReason::truncated, false,
                             fmt::format("{} did not prove who it is: {}", where, error.message())};
  }
  co_return failed;
}

bool tell_taken(Socket& socket) noexcept {
  const std::array<std::byte, 1> verdict{kTaken};
  return socket.try_send(verdict);
}

bool is_own_user(const Socket& socket) {
  return !socket.local_address().is_unix() || socket.peer_credentials().user == host::user_id();
}

bool stays_in_host(const Socket& socket) {
  const Address local = socket.local_address();
  return local.is_unix() || local.with_any_port() == socket.remote_address().with_any_port();
}

std::string address_for_people(const Socket& socket) {
  const Address local = socket.local_address();
  return local.is_unix() ? local.to_string() : socket.remote_address().to_string();
}

}  // namespace cohort
