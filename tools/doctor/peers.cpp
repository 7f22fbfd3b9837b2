// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/doctor/peers.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/socket.h>
#include <cohort/net/auth/identity.h>
#include <cohort/net/membership.h>
#include <cohort/tools/gathering.h>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>

namespace cohort::doctor {
namespace {

using namespace std::chrono_literals;

constexpr int kRoundTrips = 50;
constexpr std::size_t kLeastBytes = 1 << 20;
constexpr std::size_t kMostBytes = 64 << 20;
constexpr std::size_t kPieceBytes = 256 << 10;
/// What takes so long is measured well enough.
constexpr Duration kLongEnough = 50ms;
constexpr Duration kConnectTime = 3s;
constexpr Duration kSmallTime = 5s;
constexpr Duration kLargeTime = 10s;

/// First on each connection: it is of this measurement and of nobody else.
using Token = std::array<std::byte, 16>;

std::int64_t clock_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::uint32_t path_mtu(const Socket& socket) {
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool is_v6 = socket.remote_address().to_string().starts_with('[');
  ::getsockopt(socket.descriptor(), is_v6 ? IPPROTO_IPV6 : IPPROTO_IP, is_v6 ? IPV6_MTU : IP_MTU, &mtu,
               &size);
  return static_cast<std::uint32_t>(mtu);
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// The end of one rank.
class Meter {
 public:
  Meter(Engine& engine, const Token& token) : engine_(engine), token_(token), piece_(kPieceBytes) {}

  /// Of the one that connects.
  Task<> measure(const Address& to, Pair& pair) {
    pair.stage = Stage::connecting;
    Task<Socket> connecting = with_deadline(kConnectTime, Socket::connect(engine_, to));
    Socket socket = co_await connecting;
    socket.set_no_delay();
    pair.mtu = path_mtu(socket);
    pair.stage = Stage::small_messages;
    Task<> small = with_deadline(kSmallTime, ask(socket, pair));
    co_await small;
    pair.stage = Stage::large_messages;
    Task<> large = with_deadline(kLargeTime, transfer(socket, pair));
    co_await large;
    pair.stage = Stage::done;
  }

  /// Of the one that is connected to.
  Task<> serve(Listener& listener) {
    Task<> serving = with_deadline(kConnectTime + kSmallTime + kLargeTime, serve_one(listener));
    co_await serving;
  }

 private:
  /// Small messages there and back; the other end says what time it is.
  Task<> ask(Socket& socket, Pair& pair) {
    co_await socket.send(token_);
    std::vector<double> halves;
    double least = 1e300;
    for (int i = 0; i < kRoundTrips; ++i) {
      const std::int64_t sent_at = clock_us();
      const TimePoint begin = engine_.now();
      co_await socket.send(bytes_of(sent_at));
      std::int64_t theirs = 0;
      co_await receive(socket, theirs);
      const double half = std::chrono::duration<double, std::micro>(engine_.now() - begin).count() / 2;
      halves.push_back(half);
      if (half >= least) continue;
      least = half;
      pair.clock_ms = (static_cast<double>(theirs - sent_at) - half) / 1000;
    }
    std::ranges::sort(halves);
    pair.latency_us = halves[halves.size() / 2];
    const std::int64_t end = -1;
    co_await socket.send(bytes_of(end));
  }

  Task<> transfer(Socket& socket, Pair& pair) {
    for (std::uint64_t bytes = kLeastBytes;; bytes *= 4) {
      const TimePoint begin = engine_.now();
      co_await socket.send(bytes_of(bytes));
      co_await send(socket, bytes);
      std::uint64_t heard = 0;
      co_await receive(socket, heard);
      const TimePoint middle = engine_.now();
      co_await take(socket, bytes);
      const TimePoint end = engine_.now();
      pair.there_mbit_per_s = rate(bytes, middle - begin);
      pair.back_mbit_per_s = rate(bytes, end - middle);
      if (end - begin >= kLongEnough || bytes * 4 > kMostBytes) break;
    }
    const std::uint64_t nothing = 0;
    co_await socket.send(bytes_of(nothing));
  }

  Task<> serve_one(Listener& listener) {
    Socket socket = co_await accept(listener);
    socket.set_no_delay();
    for (std::int64_t heard = 0;;) {
      co_await receive(socket, heard);
      if (heard < 0) break;
      const std::int64_t now = clock_us();
      co_await socket.send(bytes_of(now));
    }
    for (std::uint64_t bytes = 0;;) {
      co_await receive(socket, bytes);
      if (bytes == 0 || bytes > kMostBytes) break;
      co_await take(socket, bytes);
      co_await socket.send(bytes_of(bytes));
      co_await send(socket, bytes);
    }
  }

  /// Strangers are hung up on.
  Task<Socket> accept(Listener& listener) {
    for (;;) {
      Socket socket = co_await listener.accept();
      Token theirs{};
      try {
        Task<bool> reading = with_deadline(kConnectTime, socket.receive(theirs));
        const bool came = co_await reading;
        if (came && theirs == token_) co_return socket;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::LinkFault && error.kind() != ErrorKind::SystemError) throw;
      }
    }
  }

  template <class T>
  static Task<> receive(Socket& socket, T& value) {
    const bool came = co_await socket.receive(std::as_writable_bytes(std::span(&value, 1)));
    if (!came) throw Error(ErrorKind::LinkFault, "the connection ended");
  }

  Task<> send(Socket& socket, std::uint64_t bytes) {
    for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, piece_.size())) {
      const auto piece = std::span(piece_).first(std::min<std::uint64_t>(bytes, piece_.size()));
      co_await socket.send(piece);
    }
  }

  Task<> take(Socket& socket, std::uint64_t bytes) {
    for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, piece_.size())) {
      const auto piece = std::span(piece_).first(std::min<std::uint64_t>(bytes, piece_.size()));
      const bool came = co_await socket.receive(piece);
      if (!came) throw Error(ErrorKind::LinkFault, "the connection ended");
    }
  }

  static double rate(std::uint64_t bytes, Duration duration) {
    return static_cast<double>(bytes) * 8 / std::chrono::duration<double, std::micro>(duration).count();
  }

  Engine& engine_;
  const Token token_;
  std::vector<std::byte> piece_;
};

/// The same on all ranks, known to nobody else.
Task<Token> agree_on_token(Communicator& comm) {
  std::vector<std::uint64_t> words{random_incarnation(), random_incarnation()};
  co_await comm.broadcast(words, 0);
  Token token{};
  std::memcpy(token.data(), words.data(), token.size());
  co_return token;
}

/// One round of one rank. What fails is in the pair.
Task<> play(Meter& meter, Listener& listener, const std::string& partner, bool connects, Pair& pair) {
  try {
    if (connects)
      co_await meter.measure(Address::parse_numeric(partner), pair);
    else
      co_await meter.serve(listener);
  } catch (const Error& error) {
    const bool is_of_network = error.kind() == ErrorKind::SystemError ||
                               error.kind() == ErrorKind::LinkFault ||
                               error.kind() == ErrorKind::DeadlineExceeded;
    if (!is_of_network) throw;
  }
}

}  // namespace

Task<std::vector<Pair>> measure_pairs(Communicator& comm) {
  const Membership& membership = comm.membership();
  const std::vector<Rank> hosts = first_ranks_of_hosts(membership);
  const Token token = co_await agree_on_token(comm);
  std::optional<Listener> listener;
  std::string own_address;
  const auto self = std::ranges::find(hosts, comm.rank());
  if (self != hosts.end()) {
    listener.emplace(comm.engine(), membership.self().data_address.with_any_port());
    own_address = listener->local_address().to_string();
  }
  const std::vector<std::string> addresses = co_await gather_texts(comm, own_address);
  Meter meter(comm.engine(), token);
  std::vector<Pair> measured;
  for (const std::vector<std::uint32_t>& partners : tournament(static_cast<std::uint32_t>(hosts.size()))) {
    Pair pair;
    if (self != hosts.end()) {
      pair.first = static_cast<std::uint32_t>(self - hosts.begin());
      pair.second = partners[pair.first];
      const std::string& address = addresses[hosts[pair.second]];
      const bool connects = pair.first < pair.second;
      if (pair.first != pair.second) co_await play(meter, *listener, address, connects, pair);
    }
    const std::string text(reinterpret_cast<const char*>(&pair), sizeof pair);
    const std::vector<std::string> all =
        co_await gather_texts(comm, text);  // and nobody begins the next one before
    for (const std::string& one : all) {
      Pair heard;
      std::memcpy(&heard, one.data(), sizeof heard);
      if (heard.stage != Stage::none) measured.push_back(heard);
    }
  }
  co_return measured;
}

}  // namespace cohort::doctor
