// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/network.h>

#include <cohort/engine/io/fork_guard.h>
#include <cohort/engine/io/tcp_state.h>

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

namespace cohort {
namespace {

constexpr int kBacklog = 512;

void set_option(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

const sockaddr* sockaddr_of(const Address& address) {
  return reinterpret_cast<const sockaddr*>(address.data());
}

int take_address(int result, const sockaddr_storage& storage, socklen_t bytes, Address& into) {
  if (result != 0) return -errno;
  into = Address::from_sockaddr(&storage, bytes);
  return 0;
}

class KernelNetwork final : public Network {
 public:
  int open(const Address& like) override {
    const fork_guard::NoChild no_child;
    const int socket = ::socket(sockaddr_of(like)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket >= 0) fork_guard::add(socket);
    return socket < 0 ? -errno : socket;
  }
  int listen(int socket, const Address& at) override {
    if (!at.is_unix()) set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(socket, sockaddr_of(at), static_cast<socklen_t>(at.size_bytes())) != 0) return -errno;
    const int flags = ::fcntl(socket, F_GETFL);
    if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0) return -errno;
    return ::listen(socket, kBacklog) == 0 ? 0 : -errno;
  }
  int accept(int socket) override {
    const fork_guard::NoChild no_child;
    const int accepted = ::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted >= 0) fork_guard::add(accepted);
    return accepted < 0 ? -errno : accepted;
  }
  void own(int socket) noexcept override { fork_guard::add(socket); }
  void close(int socket) noexcept override {
    const fork_guard::NoChild no_child;
    fork_guard::remove(socket);
    ::close(socket);
  }

  int send(int socket, std::span<const std::byte> first, std::span<const std::byte> second) noexcept override;
  int receive(int socket, std::span<std::byte> into) noexcept override {
    const ssize_t got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    return got < 0 ? -errno : static_cast<int>(got);
  }
  void shutdown(int socket) noexcept override { ::shutdown(socket, SHUT_RDWR); }
  int unacknowledged(int socket) noexcept override;
  Duration silence(int socket) noexcept override {
    const std::optional<TcpState> state = read_tcp_state(socket);
    return state ? cohort::silence(*state) : Duration::zero();
  }
  void set_no_delay(int socket) noexcept override { set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1); }
  void set_buffer_bytes(int socket, std::size_t bytes) noexcept override;

  void set_host_timeout(int socket, Duration longest) noexcept override;
  std::optional<TcpState> tcp_state(int socket) noexcept override { return read_tcp_state(socket); }

  int peer_credentials(int socket, PeerCredentials& into) override {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return -errno;
    into = {static_cast<std::uint32_t>(credentials.pid), credentials.uid};
    return 0;
  }
  int local_address(int socket, Address& into) override {
    sockaddr_storage storage{};
    socklen_t bytes = sizeof storage;
    const int result = ::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &bytes);
    return take_address(result, storage, bytes, into);
  }
  int remote_address(int socket, Address& into) override {
    sockaddr_storage storage{};
    socklen_t bytes = sizeof storage;
    const int result = ::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &bytes);
    return take_address(result, storage, bytes, into);
  }
};

int KernelNetwork::send(int socket, std::span<const std::byte> first,
                        std::span<const std::byte> second) noexcept {
  std::array<iovec, 2> pieces = {iovec{const_cast<std::byte*>(first.data()), first.size()},
                                 iovec{const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? -errno : static_cast<int>(sent);
}

/// Probes where nothing is to be sent. TCP_USER_TIMEOUT would be for the rest, but also ends a connection
/// whose other end answers that it has no room: that one only computes. For the rest there is HostWatch.
void KernelNetwork::set_host_timeout(int socket, Duration longest) noexcept {
  constexpr int kProbes = 5;  // a HostWatch loses the host before the last one is over, if somebody looks
  const auto interval = std::chrono::duration_cast<std::chrono::seconds>(longest / kProbes);
  const int seconds = std::max(1, static_cast<int>(interval.count()));
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  limit_retransmission(socket, interval);
}

/// Of a connection that was reset the kernel goes on counting.
int KernelNetwork::unacknowledged(int socket) noexcept {
  int bytes = 0;
  if (::ioctl(socket, SIOCOUTQ, &bytes) != 0) return -errno;
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool is_tcp = bytes != 0 && ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  return is_tcp && info.tcpi_state == TCP_CLOSE ? 0 : bytes;
}

void KernelNetwork::set_buffer_bytes(int socket, std::size_t bytes) noexcept {
  struct Buffer {
    int option;
    int privileged_option;
    const char* limit_file;
  };
  for (const Buffer& buffer : {Buffer{SO_RCVBUF, SO_RCVBUFFORCE, "/proc/sys/net/core/rmem_max"},
                               Buffer{SO_SNDBUF, SO_SNDBUFFORCE, "/proc/sys/net/core/wmem_max"}}) {
    const int value = static_cast<int>(bytes);
    if (::setsockopt(socket, SOL_SOCKET, buffer.privileged_option, &value, sizeof value) == 0) continue;
    // Asking for more than the limit would fix the size there, usually below what the kernel would give.
    std::size_t limit_bytes = 0;
    std::ifstream(buffer.limit_file) >> limit_bytes;
    if (limit_bytes >= bytes) set_option(socket, SOL_SOCKET, buffer.option, value);
  }
}

}  // namespace

std::unique_ptr<Network> make_kernel_network() { return std::make_unique<KernelNetwork>(); }

}  // namespace cohort
