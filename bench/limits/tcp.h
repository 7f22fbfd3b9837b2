// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <functional>
#include <stdexcept>
#include <system_error>

#include <cohort/bench/limits/bench.h>
#include <cohort/bench/peers/data.h>

namespace cohort::limits {

inline int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

/// Two ends of a loopback connection, made before the fork: each side uses its own.
class Connection {
 public:
  /// 0: the kernel's own choice of buffers.
  explicit Connection(int buffer_bytes) {
    const int listener = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    set_buffers(listener, buffer_bytes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    checked(bind(listener, generic, length), "bind");
    checked(listen(listener, 1), "listen");
    checked(getsockname(listener, generic, &length), "getsockname");
    ends_[0] = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    set_buffers(ends_[0], buffer_bytes);
    checked(connect(ends_[0], generic, length), "connect");
    ends_[1] = checked(accept(listener, nullptr, nullptr), "accept");
    close(listener);
    const int yes = 1;
    for (const int end : ends_)
      checked(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), "nodelay");
  }

  int end(int side) const { return ends_[static_cast<std::size_t>(side)]; }

 private:
  static void set_buffers(int fd, int bytes) {
    if (bytes == 0) return;
    checked(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), "send buffer");
    checked(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes), "receive buffer");
  }

  std::array<int, 2> ends_{};
};

/// Sends and receives at once, polling, in pieces of at most `chunk` bytes.
inline void transfer(int fd, const char* out, std::size_t out_bytes, char* in, std::size_t in_bytes,
                     std::size_t chunk) {
  const auto moved = [](ssize_t count) -> std::size_t {
    if (count == 0) throw std::runtime_error("the other side is gone");
    if (count < 0 && errno != EAGAIN) throw std::system_error(errno, std::generic_category(), "loopback");
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  };
  std::size_t sent = 0;
  std::size_t received = 0;
  while (sent < out_bytes || received < in_bytes) {
    if (sent < out_bytes) {
      const std::size_t count = std::min(chunk, out_bytes - sent);
      sent += moved(send(fd, out + sent, count, MSG_DONTWAIT | MSG_NOSIGNAL));
    }
    if (received < in_bytes) {
      const std::size_t count = std::min(chunk, in_bytes - received);
      received += moved(recv(fd, in + received, count, MSG_DONTWAIT));
    }
  }
}

/// `tcp_round_trip`: 8 bytes there and back. `tcp_exchange`: 8 bytes both ways at once. `tcp_stream`: bytes
/// one way, and a byte back. `tcp_duplex`: bytes both ways at once. These two with the better of two
/// sizes of socket buffers and of pieces.
inline void measure_tcp(Bench& bench, std::span<const Connection> connections) {
  constexpr std::size_t kLargest = std::size_t{64} << 20;
  constexpr std::array<std::size_t, 2> kChunks = {std::size_t{256} << 10, kLargest};
  const peers::Buffer source(kLargest / sizeof(float));
  const peers::Buffer target(kLargest / sizeof(float));
  const auto* const out = reinterpret_cast<const char*>(source.data());
  auto* const in = reinterpret_cast<char*>(target.data());
  const bool is_first = bench.side() == 0;
  const auto one_way = [=](int fd, std::size_t bytes, std::size_t back, std::size_t chunk) {
    if (is_first) {
      transfer(fd, out, bytes, nullptr, 0, chunk);
      transfer(fd, nullptr, 0, in, back, chunk);
    } else {
      transfer(fd, nullptr, 0, in, bytes, chunk);
      transfer(fd, out, back, nullptr, 0, chunk);
    }
  };
  const int first_end = connections.front().end(bench.side());
  bench.measure(
      "tcp_round_trip", 8, [] {}, [&] { one_way(first_end, 8, 8, 8); });
  bench.measure(
      "tcp_exchange", 8, [] {}, [&] { transfer(first_end, out, 8, in, 8, 8); });
  for (const std::size_t bytes :
       {4ul << 10, 32ul << 10, 256ul << 10, 1ul << 20, 4ul << 20, 16ul << 20, 64ul << 20}) {
    std::vector<std::function<Bench::Row()>> streams;
    std::vector<std::function<Bench::Row()>> duplexes;
    for (const Connection& connection : connections) {
      for (const std::size_t chunk : kChunks) {
        if (chunk == kLargest && bytes <= kChunks.front()) continue;
        const int fd = connection.end(bench.side());
        const auto stream = [=] { one_way(fd, bytes, 1, chunk); };
        const auto duplex = [=] { transfer(fd, out, bytes, in, bytes, chunk); };
        streams.emplace_back([&bench, stream] { return bench.sample([] {}, stream); });
        duplexes.emplace_back([&bench, duplex] { return bench.sample([] {}, duplex); });
      }
    }
    bench.report("tcp_stream", bytes, bench.best_median(streams));
    bench.report("tcp_duplex", bytes, bench.best_median(duplexes));
  }
}

}  // namespace cohort::limits
