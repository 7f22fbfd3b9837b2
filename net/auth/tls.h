// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/net/auth/secret.h>

namespace cohort {

/// Encrypts a connection from here on: TLS 1.3 with a pre-shared key and a fresh Diffie-Hellman exchange, by
/// OpenSSL. Both ends do so at the same point of what they say to each other, one as the client. `key` is the
/// connection's own: ClientHandshake::connection_key().
///
/// Errors: LinkFault if the other end does not, ends the connection or has another key; Internal if OpenSSL
/// fails.
Task<> encrypt_as_client(Socket& socket, const Secret& key);
Task<> encrypt_as_server(Socket& socket, const Secret& key);

}  // namespace cohort
