// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/socket.h>

#include <cohort/engine/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace cohort {
namespace {

constexpr int kBacklog = 512;
constexpr Duration kRetryInterval = std::chrono::milliseconds(20);
constexpr Duration kDescriptorBackoff = std::chrono::milliseconds(50);
constexpr std::size_t kMostDescriptors = 8;

int family_of(const Address& address) { return reinterpret_cast<const sockaddr*>(address.data())->sa_family; }

Descriptor open_socket(const Address& address) {
  Descriptor descriptor(::socket(family_of(address), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!descriptor.is_open()) throw system_error(errno, "creating a socket");
  return descriptor;
}

void set_option(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);
}

bool may_come_up_later(int error_number) {
  return error_number == ECONNREFUSED || error_number == ENOENT || error_number == EAGAIN ||
         error_number == ECONNRESET || error_number == EHOSTUNREACH || error_number == ENETUNREACH ||
         error_number == ETIMEDOUT;
}

Task<int> try_connect(Engine& engine, int descriptor, const Address& to) {
  IoOperation operation(engine.driver(), {.kind = IoKind::connect,
                                          .descriptor = descriptor,
                                          .address = const_cast<std::byte*>(to.data()),
                                          .bytes = to.size_bytes()});
  co_return co_await operation;
}

/// Room for the descriptors that may travel with a message.
struct alignas(cmsghdr) ControlBuffer {
  std::array<std::byte, CMSG_SPACE(sizeof(int) * kMostDescriptors)> bytes{};
};

void take_descriptors(msghdr& message, std::vector<Descriptor>& descriptors, std::size_t most) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      Descriptor descriptor(number);
      if (descriptors.size() < most) descriptors.push_back(std::move(descriptor));
    }
  }
}

}  // namespace

void Descriptor::close() noexcept {
  if (is_open()) ::close(std::exchange(number_, -1));
}

Task<Socket> Socket::connect(Engine& engine, Address to) {
  Descriptor descriptor = open_socket(to);
  const int result = co_await try_connect(engine, descriptor.number(), to);
  if (result < 0) throw system_error(-result, fmt::format("connecting to {}", to.to_string()));
  co_return Socket(engine, std::move(descriptor));
}

Task<Socket> Socket::connect_until(Engine& engine, Address to, TimePoint deadline) {
  for (;;) {
    Descriptor descriptor = open_socket(to);
    const int result = co_await try_connect(engine, descriptor.number(), to);
    if (result >= 0) co_return Socket(engine, std::move(descriptor));
    const bool give_up = !may_come_up_later(-result) || engine.now() + kRetryInterval >= deadline;
    if (give_up) throw system_error(-result, fmt::format("connecting to {}", to.to_string()));
    co_await engine.sleep_for(kRetryInterval);
  }
}

IoOperation Socket::receive_some(std::span<std::byte> into) noexcept {
  return IoOperation(engine_->driver(), {.kind = IoKind::recv,
                                         .descriptor = descriptor(),
                                         .address = into.data(),
                                         .bytes = into.size(),
                                         .flags = MSG_NOSIGNAL});
}

Task<bool> Socket::receive(std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const int result = co_await receive_some(into.subspan(done));
    if (result == -EINTR || result == -EAGAIN) continue;
    if (result < 0) throw system_error(-result, "receiving from a socket");
    if (result == 0 && done == 0) co_return false;
    if (result == 0)
      throw Error(ErrorKind::LinkFault,
                  fmt::format("the connection ended after {} of {} bytes", done, into.size()));
    done += static_cast<std::size_t>(result);
  }
  co_return true;
}

Task<> Socket::send(std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    IoOperation operation(engine_->driver(), {.kind = IoKind::send,
                                              .descriptor = descriptor(),
                                              .address = const_cast<std::byte*>(bytes.data()) + done,
                                              .bytes = bytes.size() - done,
                                              .flags = MSG_NOSIGNAL | MSG_WAITALL});
    const int result = co_await operation;
    if (result == -EINTR || result == -EAGAIN) continue;
    if (result < 0) throw system_error(-result, "sending on a socket");
    done += static_cast<std::size_t>(result);
  }
}

Task<> Socket::send_message(::msghdr& message, std::size_t total_bytes) {
  std::size_t done = 0;
  while (done < total_bytes) {
    IoOperation operation(engine_->driver(), {.kind = IoKind::send_message,
                                              .descriptor = descriptor(),
                                              .address = &message,
                                              .flags = MSG_NOSIGNAL | MSG_WAITALL});
    const int result = co_await operation;
    if (result == -EINTR || result == -EAGAIN) continue;
    if (result < 0) throw system_error(-result, "sending on a socket");
    done += static_cast<std::size_t>(result);
    message.msg_control = nullptr;  // descriptors travel with the first byte
    message.msg_controllen = 0;
    auto sent = static_cast<std::size_t>(result);
    while (message.msg_iovlen != 0 && sent >= message.msg_iov->iov_len) {
      sent -= message.msg_iov->iov_len;
      ++message.msg_iov;
      --message.msg_iovlen;
    }
    if (message.msg_iovlen == 0) break;
    message.msg_iov->iov_base = static_cast<std::byte*>(message.msg_iov->iov_base) + sent;
    message.msg_iov->iov_len -= sent;
  }
}

Task<> Socket::send(std::span<const std::byte> first, std::span<const std::byte> second) {
  std::array<iovec, 2> pieces = {iovec{const_cast<std::byte*>(first.data()), first.size()},
                                 iovec{const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = second.empty() ? 1 : 2;
  co_await send_message(message, first.size() + second.size());
}

Task<> Socket::send(std::span<const std::byte> bytes, std::span<const int> descriptors) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t size_bytes = descriptors.size_bytes();
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(size_bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size_bytes);
    std::memcpy(CMSG_DATA(header), descriptors.data(), size_bytes);
  }
  co_await send_message(message, bytes.size());
}

Task<std::size_t> Socket::receive_message(std::span<std::byte> into, std::vector<Descriptor>& descriptors,
                                          std::size_t most) {
  iovec piece{into.data(), into.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  for (;;) {
    IoOperation operation(engine_->driver(), {.kind = IoKind::recv_message,
                                              .descriptor = descriptor(),
                                              .address = &message,
                                              .flags = MSG_NOSIGNAL | MSG_CMSG_CLOEXEC});
    const int result = co_await operation;
    if (result == -EINTR || result == -EAGAIN) continue;
    if (result < 0) throw system_error(-result, "receiving from a socket");
    take_descriptors(message, descriptors, most);
    co_return static_cast<std::size_t>(result);
  }
}

Task<bool> Socket::receive(std::span<std::byte> into, std::vector<Descriptor>& descriptors,
                           std::size_t most) {
  std::size_t done = 0;
  while (done < into.size()) {
    const std::size_t got = co_await receive_message(into.subspan(done), descriptors, most);
    if (got == 0 && done == 0) co_return false;
    if (got == 0)
      throw Error(ErrorKind::LinkFault,
                  fmt::format("the connection ended after {} of {} bytes", done, into.size()));
    done += got;
  }
  co_return true;
}

bool Socket::try_send(std::span<const std::byte> bytes) noexcept {
  const ssize_t sent = ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes.size());
}

int Socket::try_send_some(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  std::array<iovec, 2> pieces = {iovec{const_cast<std::byte*>(first.data()), first.size()},
                                 iovec{const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const ssize_t sent = ::sendmsg(descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? -errno : static_cast<int>(sent);
}

int Socket::try_receive_some(std::span<std::byte> into) noexcept {
  const ssize_t got = ::recv(descriptor(), into.data(), into.size(), MSG_DONTWAIT);
  return got < 0 ? -errno : static_cast<int>(got);
}

IoOperation Socket::writable() noexcept {
  return IoOperation(engine_->driver(), {.kind = IoKind::poll, .descriptor = descriptor(), .flags = POLLOUT});
}

IoOperation Socket::readable() noexcept {
  return IoOperation(engine_->driver(), {.kind = IoKind::poll, .descriptor = descriptor(), .flags = POLLIN});
}

void Socket::shutdown() noexcept {
  if (is_open()) ::shutdown(descriptor(), SHUT_RDWR);
}

void Socket::set_buffer_bytes(std::size_t bytes) noexcept {
  struct Buffer {
    int option;
    int privileged_option;
    const char* limit_file;
  };
  for (const Buffer& buffer : {Buffer{SO_RCVBUF, SO_RCVBUFFORCE, "/proc/sys/net/core/rmem_max"},
                               Buffer{SO_SNDBUF, SO_SNDBUFFORCE, "/proc/sys/net/core/wmem_max"}}) {
    const int value = static_cast<int>(bytes);
    if (::setsockopt(descriptor(), SOL_SOCKET, buffer.privileged_option, &value, sizeof value) == 0) continue;
    // Asking for more than the limit would fix the size there, usually below what the kernel would give.
    std::size_t limit_bytes = 0;
    std::ifstream(buffer.limit_file) >> limit_bytes;
    if (limit_bytes >= bytes) set_option(descriptor(), SOL_SOCKET, buffer.option, value);
  }
}

void Socket::set_no_delay() noexcept { set_option(descriptor(), IPPROTO_TCP, TCP_NODELAY, 1); }

PeerCredentials Socket::peer_credentials() const {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(descriptor(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    throw system_error(errno, "asking who is at the other end of a Unix socket");
  return {static_cast<std::uint32_t>(credentials.pid), credentials.uid};
}

Address Socket::local_address() const {
  Address address;
  auto size = static_cast<socklen_t>(Address::kLargest);
  if (::getsockname(descriptor(), reinterpret_cast<sockaddr*>(address.storage_.data()), &size) != 0)
    throw system_error(errno, "asking for a socket's own address");
  address.size_bytes_ = size;
  return address;
}

Address Socket::remote_address() const {
  Address address;
  auto size = static_cast<socklen_t>(Address::kLargest);
  if (::getpeername(descriptor(), reinterpret_cast<sockaddr*>(address.storage_.data()), &size) != 0)
    throw system_error(errno, "asking for the address at the other end of a socket");
  address.size_bytes_ = size;
  return address;
}

Listener::Listener(Engine& engine, const Address& at) : engine_(&engine), descriptor_(open_socket(at)) {
  if (!at.is_unix()) set_option(descriptor_.number(), SOL_SOCKET, SO_REUSEADDR, 1);
  const auto* address = reinterpret_cast<const sockaddr*>(at.data());
  if (::bind(descriptor_.number(), address, static_cast<socklen_t>(at.size_bytes())) != 0) {
    const int error_number = errno;
    const bool taken = error_number == EADDRINUSE;
    throw system_error(error_number,
                       fmt::format("listening at {}{}", at.to_string(),
                                   taken ? " (another job uses it: choose another address, or port 0)" : ""));
  }
  if (::listen(descriptor_.number(), kBacklog) != 0)
    throw system_error(errno, fmt::format("listening at {}", at.to_string()));
  reserve_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

Address Listener::local_address() const {
  Address address;
  auto size = static_cast<socklen_t>(Address::kLargest);
  if (::getsockname(descriptor_.number(), reinterpret_cast<sockaddr*>(address.storage_.data()), &size) != 0)
    throw system_error(errno, "asking for a listener's address");
  address.size_bytes_ = size;
  return address;
}

/// Out of descriptors: gives one up to take the newcomer, if there is one, off the queue and close its
/// connection.
void Listener::turn_away() noexcept {
  pollfd newcomer{.fd = descriptor_.number(), .events = POLLIN, .revents = 0};
  if (::poll(&newcomer, 1, 0) != 1) return;  // the kernel reserves a descriptor before anybody has come
  reserve_.close();
  Descriptor turned_away(::accept4(descriptor_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  turned_away.close();
  reserve_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

Task<Socket> Listener::accept() {
  for (;;) {
    IoOperation operation(engine_->driver(), {.kind = IoKind::accept, .descriptor = descriptor_.number()});
    const int result = co_await operation;
    if (result >= 0) co_return Socket(*engine_, Descriptor(result));
    if (result == -EMFILE || result == -ENFILE) {
      turn_away();
      co_await engine_->sleep_for(kDescriptorBackoff);
      continue;
    }
    const bool transient =
        result == -EINTR || result == -EAGAIN || result == -ECONNABORTED || result == -EPROTO;
    if (!transient) throw system_error(-result, "accepting a connection");
  }
}

}  // namespace cohort
