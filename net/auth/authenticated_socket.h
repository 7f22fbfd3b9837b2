// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/net/auth/handshake.h>

#include <optional>
#include <string>

namespace cohort {

/// Time for a stranger to prove who it is.
inline constexpr Duration kAuthenticationTime = std::chrono::seconds(5);
/// Time for the listening end to answer. Longer, so that it is the listening end that gives up on a
/// connection where both are slow: otherwise it could take one that its caller has just left.
inline constexpr Duration kAnswerTime = 3 * kAuthenticationTime;

/// Proves to each other, over a new connection, that both ends know the secret; see handshake.h. The
/// listening end has really taken the connection when this returns.
///
/// Where either end requires it (Identity::encryption), the connection is encrypted from then on, unless it
/// stays in this host.
///
/// `callee` says whom we expect. Unix: the other end must run under our user. Lifetime: the references
/// outlive the task.
///
/// Errors: AuthFailed (another secret or user), DuplicateRank, WorldSize, Mismatch, ProtocolError as the
/// handshake found it, with the callee's rank as culprit; LinkFault when the connection ended before a
/// verdict, or the other end said nothing for `patience`: worth another attempt. Without patience of its own
/// it waits as long as its caller.
Task<Identity> authenticate_as_client(Socket& socket, const Secret& secret, Identity mine,
                                      const Callee& callee, std::optional<Duration> patience = kAnswerTime);

/// What came of a connection to a listener.
struct Admission {
  std::optional<Identity> peer;     ///< set: it belongs here
  std::optional<Refusal> refusal;   ///< set: it does not, and why
  std::optional<Identity> claimed;  ///< with a refusal: who it said it was, if it came that far
};

/// The listening end. A refusal is a value: strangers are no failure of ours. Reads into fixed buffers, at
/// most the two messages; gives up after kAuthenticationTime. The other end waits for tell_taken() then.
/// Throws only the cause of its scope, or Internal.
Task<Admission> authenticate_as_server(Socket& socket, const Secret& secret, Identity mine, Service service,
                                       std::string where);

/// The last word of the listening end: from here on the other one believes that it is in. Never waits; false
/// if it has gone.
[[nodiscard]] bool tell_taken(Socket& socket) noexcept;

/// Unix: the other end runs under our effective user. Other sockets: true.
[[nodiscard]] bool is_own_user(const Socket& socket);

/// Whether both ends have the same address.
[[nodiscard]] bool stays_in_host(const Socket& socket);

/// Where the other end is, for texts: a Unix socket has no address of its own, so its listener's is used.
[[nodiscard]] std::string address_for_people(const Socket& socket);

}  // namespace cohort
