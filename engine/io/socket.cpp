// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/socket.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/descriptor_limit.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace cohort {
namespace {

constexpr Duration kRetryInterval = std::chrono::milliseconds(20);
/// While this host has nothing to take connections with.
constexpr Duration kAcceptBackoff = std::chrono::milliseconds(50);
constexpr std::size_t kMostDescriptors = 8;

SocketHandle open_socket(Engine& engine, const Address& address) {
  const int number = engine.network().open(address);
  if (number < 0) throw system_error(-number, "creating a socket");
  return SocketHandle(engine.network(), number);
}

bool may_come_up_later(int error_number) {
  return error_number == ECONNREFUSED || error_number == ENOENT || error_number == EAGAIN ||
         error_number == ECONNRESET || error_number == EHOSTUNREACH || error_number == ENETUNREACH ||
         error_number == ETIMEDOUT;
}

/// An error of accepting that no other attempt mends.
bool is_no_listener(int error_number) {
  return error_number == EBADF || error_number == EINVAL || error_number == ENOTSOCK ||
         error_number == EFAULT;
}

/// An error of accepting after which the next connection may be waiting already.
bool concerns_one_connection(int error_number) {
  return error_number == EINTR || error_number == EAGAIN || error_number == ECONNABORTED ||
         error_number == EPROTO;
}

/// Every port that this host has to call from is in use towards there, or waits for late packets of a
/// connection that has ended; or it has no address of that family.
Error connecting_failed(int error_number, const Address& to) {
  const std::string what = fmt::format("connecting to {}", to.to_string());
  Error error = system_error(error_number, what);
  if (error_number != EADDRNOTAVAIL) return error;
  return Error(
      ErrorKind::ResourceLimit,
      fmt::format("{}; this host has no local port left for it (sysctl net.ipv4.ip_local_port_range), "
                  "or no address of its kind",
                  error.message()));
}

Error receiving_failed(int error_number) {
  if (error_number != EBADMSG) return system_error(error_number, "receiving from a socket");
  return Error(ErrorKind::LinkFault, std::string(kBytesWereChanged));
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

Task<Socket> Socket::connect(Engine& engine, Address to, int* error_number) {
  SocketHandle handle = open_socket(engine, to);
  const int result = co_await try_connect(engine, handle.number(), to);
  if (result < 0 && error_number != nullptr) *error_number = -result;
  if (result < 0) throw connecting_failed(-result, to);
  co_return Socket(engine, std::move(handle));
}

Task<Socket> Socket::connect_until(Engine& engine, Address to, TimePoint deadline) {
  for (;;) {
    SocketHandle handle = open_socket(engine, to);
    const int result = co_await try_connect(engine, handle.number(), to);
    if (result >= 0) co_return Socket(engine, std::move(handle));
    const bool give_up = !may_come_up_later(-result) || engine.now() + kRetryInterval >= deadline;
    if (give_up) throw connecting_failed(-result, to);
    co_await engine.sleep_for(kRetryInterval);
  }
}

/// A result as it is.
int Socket::note(int result) noexcept {
  has_lost_host_ |= result == -ETIMEDOUT || result == -EHOSTUNREACH || result == -ENETUNREACH;
  return result;
}

Task<int> Socket::receive_some(std::span<std::byte> into) {
  while (protection_) {
    const int result = note(protection_->receive(into));
    if (result != -EAGAIN) co_return result;
    co_await readable();
  }
  IoOperation operation(engine_->driver(), {.kind = IoKind::recv,
                                            .descriptor = descriptor(),
                                            .address = into.data(),
                                            .bytes = into.size(),
                                            .flags = MSG_NOSIGNAL});
  const int result = co_await operation;
  co_return note(result);
}

Task<bool> Socket::receive(std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const int result = co_await receive_some(into.subspan(done));
    if (result == -EINTR || result == -EAGAIN) continue;
    if (result < 0) throw receiving_failed(-result);
    if (result == 0 && done == 0) co_return false;
    if (result == 0)
      throw Error(ErrorKind::LinkFault,
                  fmt::format("the connection ended after {} of {} bytes", done, into.size()));
    done += static_cast<std::size_t>(result);
  }
  co_return true;
}

Task<> Socket::send_protected(std::span<const std::byte> first, std::span<const std::byte> second) {
  while (!first.empty() || !second.empty()) {
    const int result = protection_->send(first, second);
    if (result == -EAGAIN) {
      const int ready = co_await writable();
      if (ready < 0 && ready != -EINTR) throw system_error(-ready, "sending on a socket");
      continue;
    }
    if (result < 0) throw system_error(-result, "sending on a socket");
    const auto sent = static_cast<std::size_t>(result);
    const std::size_t of_first = std::min(sent, first.size());
    first = first.subspan(of_first);
    second = second.subspan(sent - of_first);
  }
}

Task<> Socket::send(std::span<const std::byte> bytes) {
  if (protection_) co_return co_await send_protected(bytes);
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

/// 0, or the error number.
Task<int> Socket::send_message(::msghdr& message, std::size_t total_bytes) {
  std::size_t done = 0;
  while (done < total_bytes) {
    IoOperation operation(engine_->driver(), {.kind = IoKind::send_message,
                                              .descriptor = descriptor(),
                                              .address = &message,
                                              .flags = MSG_NOSIGNAL | MSG_WAITALL});
    const int result = co_await operation;
    if (result == -EINTR || result == -EAGAIN) continue;
    if (result < 0) co_return -result;
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
  co_return 0;
}

Task<> Socket::send(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (protection_) co_return co_await send_protected(first, second);
  std::array<iovec, 2> pieces = {iovec{const_cast<std::byte*>(first.data()), first.size()},
                                 iovec{const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = second.empty() ? 1 : 2;
  const int failure = co_await send_message(message, first.size() + second.size());
  if (failure != 0) throw system_error(failure, "sending on a socket");
}

Task<bool> Socket::pass(std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (protection_) {
    co_await send_protected(bytes);
    co_return true;
  }
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
  const int failure = co_await send_message(message, bytes.size());
  if (failure == ETOOMANYREFS) co_return false;
  if (failure != 0) throw system_error(failure, "sending on a socket");
  co_return true;
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
    if ((message.msg_flags & MSG_CTRUNC) != 0)
      throw Error(
          ErrorKind::ResourceLimit,
          fmt::format("a descriptor that was passed to this process did not arrive: the process has as "
                      "many open as it may, {}; raise the limit (ulimit -n)",
                      descriptor_limit::current()));
    co_return static_cast<std::size_t>(result);
  }
}

Task<bool> Socket::receive(std::span<std::byte> into, std::vector<Descriptor>& descriptors,
                           std::size_t most) {
  if (protection_) co_return co_await receive(into);
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
  return std::cmp_equal(try_send_some(bytes, {}), bytes.size());
}

int Socket::try_send_some(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  return note(protection_ ? protection_->send(first, second) : network().send(descriptor(), first, second));
}

int Socket::try_receive_some(std::span<std::byte> into) noexcept {
  return note(protection_ ? protection_->receive(into) : network().receive(descriptor(), into));
}

IoOperation Socket::writable() noexcept {
  return IoOperation(engine_->driver(), {.kind = IoKind::poll, .descriptor = descriptor(), .flags = POLLOUT});
}

Task<> Socket::readable() {
  if (protection_ && protection_->has_received()) co_return;
  IoOperation operation(engine_->driver(),
                        {.kind = IoKind::poll, .descriptor = descriptor(), .flags = POLLIN});
  co_await operation;
}

bool Socket::is_acknowledged() noexcept { return !is_open() || network().unacknowledged(descriptor()) <= 0; }

void Socket::shutdown() noexcept {
  if (is_open()) network().shutdown(descriptor());
}

void Socket::set_buffer_bytes(std::size_t bytes) noexcept { network().set_buffer_bytes(descriptor(), bytes); }

void Socket::set_no_delay() noexcept { network().set_no_delay(descriptor()); }

PeerCredentials Socket::peer_credentials() const {
  PeerCredentials credentials;
  const int result = network().peer_credentials(descriptor(), credentials);
  if (result < 0) throw system_error(-result, "asking who is at the other end of a Unix socket");
  return credentials;
}

Address Socket::local_address() const {
  Address address;
  const int result = network().local_address(descriptor(), address);
  if (result < 0) throw system_error(-result, "asking for a socket's own address");
  return address;
}

Address Socket::remote_address() const {
  Address address;
  const int result = network().remote_address(descriptor(), address);
  if (result < 0) throw system_error(-result, "asking for the address at the other end of a socket");
  return address;
}

namespace {

/// An address that this process can never listen at is a wrong argument; one that is taken may be free later.
Error listening_error(int error_number, const Address& at) {
  const std::string_view advice = error_number == EADDRINUSE ? "another job uses it: choose another address"
                                  : error_number == EADDRNOTAVAIL
                                      ? "it is no address of this host: give one of its own, or start this "
                                        "process on the host that has it"
                                  : error_number == EACCES ? "this user may not: choose a port from 1024 on"
                                                           : "";
  const std::string doing =
      fmt::format("listening at {}{}", at.to_string(), advice.empty() ? "" : fmt::format(" ({})", advice));
  const Error error = system_error(error_number, doing);
  const bool is_wrong = error_number == EADDRNOTAVAIL || error_number == EACCES;
  return is_wrong ? Error(ErrorKind::InvalidArgument, std::string(error.message())) : error;
}

}  // namespace

Listener::Listener(Engine& engine, const Address& at) : engine_(&engine), handle_(open_socket(engine, at)) {
  const int result = engine.network().listen(handle_.number(), at);
  if (result < 0) throw listening_error(-result, at);
  where_ = local_address().to_string();
  reserve_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

Address Listener::local_address() const {
  Address address;
  const int result = engine_->network().local_address(handle_.number(), address);
  if (result < 0) throw system_error(-result, "asking for a listener's address");
  return address;
}

/// Out of descriptors: gives one up to take the newcomer off the queue and close its connection.
void Listener::turn_away() noexcept {
  reserve_.close();
  const int turned_away = engine_->network().accept(handle_.number());
  if (turned_away >= 0) engine_->network().close(turned_away);
  reserve_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void Listener::warn_once(const Error& why) noexcept {
  if (!std::exchange(is_short_, true)) log(LogLevel::warn, "{}; trying again until it works", why.message());
}

/// Waits and then accepts, rather than both in the kernel: a connection that nobody here knows of yet is
/// guarded by nobody when a child is made.
Task<Socket> Listener::accept() {
  for (;;) {
    IoOperation newcomer(engine_->driver(),
                         {.kind = IoKind::poll, .descriptor = handle_.number(), .flags = POLLIN});
    const int ready = co_await newcomer;
    const int result = ready < 0 ? ready : engine_->network().accept(handle_.number());
    if (result >= 0) {
      is_short_ = false;
      co_return Socket(*engine_, SocketHandle(engine_->network(), result));
    }
    if (concerns_one_connection(-result)) continue;
    const Error error = system_error(-result, fmt::format("accepting a connection at {}", where_));
    if (is_no_listener(-result)) throw Error(error);
    if (result == -EMFILE || result == -ENFILE) turn_away();
    warn_once(error);
    co_await engine_->sleep_for(kAcceptBackoff);
  }
}

}  // namespace cohort
