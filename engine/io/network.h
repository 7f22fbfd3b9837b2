// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/io/address.h>
#include <cohort/engine/io/host_watch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cohort {

/// Who is at the other end of a Unix socket, as the kernel says.
struct PeerCredentials {
  std::uint32_t process = 0;
  std::uint32_t user = 0;
};

/// Sockets, as far as nothing is waited for: that is the driver's part. Virtual, so that a simulated network
/// can stand in for the kernel's.
///
/// A socket is a number, as for the driver. Results are those of system calls, failures minus the error
/// number. Threads: the engine's.
class Network {
 public:
  virtual ~Network() = default;

  /// A stream socket of that address's family.
  virtual int open(const Address& like) = 0;
  /// Binds and listens.
  virtual int listen(int socket, const Address& at) = 0;
  /// The next connection of a listening socket, without waiting (EAGAIN).
  virtual int accept(int socket) = 0;
  /// A handle holds this socket from now on, until it closes it.
  virtual void own(int /*socket*/) noexcept {}
  virtual void close(int socket) noexcept = 0;

  /// One attempt to send two pieces without waiting: bytes that went out.
  virtual int send(int socket, std::span<const std::byte> first,
                   std::span<const std::byte> second) noexcept = 0;
  /// One attempt to receive without waiting: bytes that came, 0 at the end of the stream.
  virtual int receive(int socket, std::span<std::byte> into) noexcept = 0;
  /// How many bytes that were sent the other end's host has not acknowledged; none if the connection is over.
  virtual int unacknowledged(int socket) noexcept = 0;
  /// Where another host owes an answer to what was sent, or could not be sent: for how long nothing has come
  /// from there, acknowledgements included. Zero if it owes none, or the network does not tell.
  virtual Duration silence(int /*socket*/) noexcept { return {}; }
  /// While nothing is to be sent, the connection ends with ETIMEDOUT once the other end's host has not
  /// answered for that long.
  virtual void set_host_timeout(int /*socket*/, Duration /*longest*/) noexcept {}
  /// For a HostWatch; none if the network does not tell, or the connection is over.
  virtual std::optional<TcpState> tcp_state(int /*socket*/) noexcept { return std::nullopt; }
  /// Both directions.
  virtual void shutdown(int socket) noexcept = 0;

  virtual void set_no_delay(int socket) noexcept = 0;
  /// Room for so many bytes in each direction, where this host lets a socket have that many.
  virtual void set_buffer_bytes(int socket, std::size_t bytes) noexcept = 0;

  virtual int peer_credentials(int socket, PeerCredentials& into) = 0;
  virtual int local_address(int socket, Address& into) = 0;
  virtual int remote_address(int socket, Address& into) = 0;
};

/// The kernel's.
[[nodiscard]] std::unique_ptr<Network> make_kernel_network();

/// An owned socket of a network, which outlives it.
class SocketHandle {
 public:
  SocketHandle() = default;
  SocketHandle(Network& network, int number) noexcept : network_(&network), number_(number) {
    if (is_open()) network_->own(number_);
  }
  SocketHandle(SocketHandle&& other) noexcept
      : network_(other.network_), number_(std::exchange(other.number_, -1)) {}
  SocketHandle& operator=(SocketHandle&& other) noexcept {
    std::swap(network_, other.network_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~SocketHandle() {
    if (is_open()) network_->close(number_);
  }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }

 private:
  Network* network_ = nullptr;
  int number_ = -1;
};

}  // namespace cohort
