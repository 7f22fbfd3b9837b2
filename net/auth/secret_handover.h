// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/net/auth/handshake.h>

#include <optional>
#include <string>
#include <string_view>

/// Before the handshake with rank 0 at a Unix address: processes of one user on one host may begin without a
/// secret. Rank 0 then makes one and gives it to whom the kernel says runs under the same user; a secret that
/// somebody chose is never given away; a process that has one does not trade it.
///
///     connecting                     rank 0
///     do I have a secret?  ----->
///                          <-----  use yours | here is one | I have one, you need it | I have none of yours
namespace cohort {

/// At rank 0. Nothing: the handshake may follow. Otherwise the connection is not taken, and why.
Task<std::optional<Refusal>> offer_secret(Socket& socket, const Secret& secret, bool is_made_here,
                                          std::string where);

/// At the others. Fills `secret` unless it is set. `source` says where it came from, for errors.
/// Errors: AuthFailed (one end has a secret, the other none; culprit 0), LinkFault (ended or silent: worth
/// another attempt), ProtocolError.
Task<> obtain_secret(Socket& socket, std::optional<Secret>& secret, Rank rank, std::string where,
                     std::string_view source);

}  // namespace cohort
