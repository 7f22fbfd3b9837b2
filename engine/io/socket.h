// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/io/address.h>
#include <cohort/engine/io/network.h>
#include <cohort/engine/io/socket_protection.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

struct msghdr;

namespace cohort {

/// An owned file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }
  void close() noexcept;

 private:
  int number_ = -1;
};

/// A connected stream socket on an engine. All waits obey the awaiting task's scope.
///
/// Errors: SystemError with the address when the kernel refuses; the end of the stream is a value, or
/// LinkFault where more was needed. Lifetime: no operation in flight when it is destroyed; shutdown() ends
/// those.
class Socket {
 public:
  Socket() = default;
  Socket(Engine& engine, Descriptor descriptor) noexcept
      : engine_(&engine), handle_(engine.network(), descriptor.release()) {}

  /// Connects once. Throws SystemError (refused, unreachable); then `error_number` is the kernel's.
  static Task<Socket> connect(Engine& engine, Address to, int* error_number = nullptr);
  /// Keeps trying until `deadline`, as when the listener is not up yet; then throws the last refusal.
  static Task<Socket> connect_until(Engine& engine, Address to, TimePoint deadline);

  [[nodiscard]] bool is_open() const noexcept { return handle_.is_open(); }
  [[nodiscard]] int descriptor() const noexcept { return handle_.number(); }

  /// From now on all bytes go through this, both ways. Before anything else is under way here.
  void protect(std::unique_ptr<SocketProtection> protection) noexcept { protection_ = std::move(protection); }
  [[nodiscard]] bool is_protected() const noexcept { return protection_ != nullptr; }
  [[nodiscard]] Network& network() const noexcept { return engine_->network(); }

  /// At least one byte, or 0 at the end of the stream, or minus the error number.
  Task<int> receive_some(std::span<std::byte> into);
  /// Exactly so many bytes; false if the stream ended before the first one. Throws LinkFault if it ended
  /// within.
  Task<bool> receive(std::span<std::byte> into);
  /// All of it.
  Task<> send(std::span<const std::byte> bytes);
  /// Two pieces in one go, such as a header and its payload.
  Task<> send(std::span<const std::byte> first, std::span<const std::byte> second);

  /// All of it, with descriptors attached (Unix sockets). False, and nothing was sent: of descriptors that
  /// this user's processes have passed and nobody has received yet, there are as many as the limit on open
  /// files (RLIMIT_NOFILE) allows; worth another attempt, for whoever receives meanwhile.
  Task<bool> pass(std::span<const std::byte> bytes, std::span<const int> descriptors);
  /// Exactly so many bytes; descriptors that came along are appended, at most `most` of them (further ones
  /// are closed). Throws ResourceLimit if this process may not have as many descriptors as came.
  Task<bool> receive(std::span<std::byte> into, std::vector<Descriptor>& descriptors, std::size_t most);

  /// One attempt to send without waiting, for goodbyes; false if it did not go out whole.
  bool try_send(std::span<const std::byte> bytes) noexcept;
  /// One attempt to send two pieces without waiting: how many bytes went out, or minus the error number
  /// (EAGAIN).
  [[nodiscard]] int try_send_some(std::span<const std::byte> first,
                                  std::span<const std::byte> second) noexcept;
  /// One attempt to receive without waiting: how many bytes came, 0 at the end of the stream, or minus the
  /// error number.
  [[nodiscard]] int try_receive_some(std::span<std::byte> into) noexcept;
  /// Until try_send_some() would not answer EAGAIN: there is room, or an error to be told.
  [[nodiscard]] IoOperation writable() noexcept;
  /// Until try_receive_some() would not answer EAGAIN, as far as is known: there are bytes, their end, or an
  /// error to be told.
  Task<> readable();

  /// Whether the other end's host has all that was sent, or the connection is over.
  [[nodiscard]] bool is_acknowledged() noexcept;
  /// As Network::silence().
  [[nodiscard]] Duration silence() noexcept { return network().silence(handle_.number()); }
  /// As Network::set_host_timeout().
  void set_host_timeout(Duration longest) noexcept { network().set_host_timeout(descriptor(), longest); }
  /// As Network's.
  [[nodiscard]] std::optional<TcpState> tcp_state() noexcept {
    return is_open() ? network().tcp_state(descriptor()) : std::nullopt;
  }
  /// Its host is lost: as shutdown().
  void give_host_up() noexcept {
    has_lost_host_ = true;
    shutdown();
  }
  /// Whether sending or receiving failed since the other end's host does not answer.
  [[nodiscard]] bool has_lost_host() const noexcept { return has_lost_host_; }
  /// Both directions, at once: the other end sees the end of the stream, and waits here complete.
  void shutdown() noexcept;
  void set_no_delay() noexcept;
  /// Room for so many bytes in each direction, where this host lets a socket have that many; where it does
  /// not, the kernel goes on sizing the buffers by itself.
  void set_buffer_bytes(std::size_t bytes) noexcept;

  /// Unix sockets only; throws SystemError otherwise.
  [[nodiscard]] PeerCredentials peer_credentials() const;
  [[nodiscard]] Address local_address() const;
  [[nodiscard]] Address remote_address() const;

 private:
  friend class Listener;
  int note(int result) noexcept;
  Task<> send_protected(std::span<const std::byte> first, std::span<const std::byte> second = {});
  Task<int> send_message(::msghdr& message, std::size_t total_bytes);
  Task<std::size_t> receive_message(std::span<std::byte> into, std::vector<Descriptor>& descriptors,
                                    std::size_t most);

  Socket(Engine& engine, SocketHandle handle) noexcept : engine_(&engine), handle_(std::move(handle)) {}

  Engine* engine_ = nullptr;
  SocketHandle handle_;
  std::unique_ptr<SocketProtection> protection_;
  bool has_lost_host_ = false;
};

/// A listening socket.
class Listener {
 public:
  Listener() = default;
  /// Throws SystemError naming the address and, when it is taken, what to do.
  Listener(Engine& engine, const Address& at);

  [[nodiscard]] bool is_open() const noexcept { return handle_.is_open(); }
  [[nodiscard]] Address local_address() const;

  /// The next connection. Where this host has no buffers, memory or descriptors for one, or its network
  /// fails, tries again from time to time, with a warning, until its scope is cancelled; without descriptors
  /// it turns connections away meanwhile. Throws SystemError if the listening socket itself is none.
  Task<Socket> accept();

 private:
  void turn_away() noexcept;
  void warn_once(const Error& why) noexcept;

  Engine* engine_ = nullptr;
  SocketHandle handle_;
  std::string where_;
  Descriptor reserve_;
  bool is_short_ = false;  ///< of something, since the last connection
};

}  // namespace cohort
