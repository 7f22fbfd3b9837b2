// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/socket_stream.h>

#include <cohort/engine/error.h>

#include <cerrno>
#include <utility>

namespace cohort::tcp {

/// An error counts: the next attempt will tell which.
Task<> SocketStream::until_writable() { co_await socket_.writable(); }
Task<> SocketStream::until_readable() { return socket_.readable(); }

Task<int> SocketStream::receive_some(std::span<std::byte> into) { return socket_.receive_some(into); }

std::string SocketStream::explain(int error_number) const {
  if (error_number == EBADMSG) return std::string(kBytesWereChanged);
  return std::string(system_error(error_number, "the connection broke").message());
}

Task<std::unique_ptr<framed::ByteStream>> open_stream(Task<Socket> connecting) {
  Socket socket = co_await connecting;
  co_return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace cohort::tcp
