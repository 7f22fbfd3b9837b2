// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/world/sockets.h>

#include <cohort/engine/assert.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <set>

namespace cohort::world {
namespace {

/// Above what any process may have open, so that a simulated socket never reaches the kernel.
constexpr int kFirstSocket = 1 << 28;
/// A kernel takes a message of this size whole, or not at all.
constexpr std::size_t kWholeBytes = 4096;
constexpr std::size_t kUnixBufferBytes = std::size_t{64} << 10;

Address nameless_unix() {
  constexpr std::uint16_t kUnixFamily = 1;
  return Address::from_sockaddr(&kUnixFamily, sizeof kUnixFamily);
}

std::string ip_of(unsigned host) { return fmt::format("10.0.0.{}", host + 1); }

}  // namespace

struct Sockets::Connection {
  Connection(std::size_t capacity_bytes, int caller, int listener)
      : pipes{Pipe(capacity_bytes), Pipe(capacity_bytes)}, sockets{caller, listener} {}
  std::array<Pipe, 2> pipes;  ///< by the side that writes
  std::array<int, 2> sockets;
};

Sockets::Sockets(const Settings& settings, Scheduler& scheduler)
    : settings_(settings), scheduler_(scheduler), has_route_(settings.host_of.size(), true) {}
Sockets::~Sockets() = default;

Sockets::Endpoint& Sockets::at(int socket) const {
  const auto index = static_cast<std::size_t>(socket - kFirstSocket);
  COHORT_ASSERT(socket >= kFirstSocket && index < endpoints_.size(), "{} is no simulated socket", socket);
  return *endpoints_[index];
}

Pipe& Sockets::incoming(const Endpoint& endpoint) const {
  return endpoint.connection->pipes[1 - endpoint.side];
}
Pipe& Sockets::outgoing(const Endpoint& endpoint) const { return endpoint.connection->pipes[endpoint.side]; }

int Sockets::open(Process owner) {
  endpoints_.push_back(std::make_unique<Endpoint>());
  endpoints_.back()->owner = owner;
  endpoints_.back()->local = nameless_unix();
  return kFirstSocket + static_cast<int>(endpoints_.size()) - 1;
}

Sockets::Place Sockets::place_of(unsigned from_host, const Address& address) const {
  const std::string text = address.to_string();
  if (address.is_unix()) return {from_host, text};
  const std::size_t colon = text.rfind(':');
  const std::string ip = text.substr(0, colon);
  for (const unsigned host : settings_.host_of)
    if (ip == ip_of(host)) return {host, text.substr(colon)};
  return {from_host, text.substr(colon)};
}

int Sockets::listen(int socket, const Address& address) {
  Endpoint& endpoint = at(socket);
  if (is_broken_) return -ENETDOWN;
  const unsigned host = settings_.host_of[endpoint.owner];
  endpoint.local = address;
  const std::string text = address.to_string();
  if (!address.is_unix() && text.ends_with(":0"))
    endpoint.local = Address::parse(fmt::format("{}:{}", text.substr(0, text.rfind(':')), next_port_++));
  if (!listeners_.try_emplace(place_of(host, endpoint.local), socket).second) return -EADDRINUSE;
  endpoint.is_listening = true;
  return 0;
}

Duration Sockets::latency(Process from, Process to, bool with_jitter) const {
  if (from == to) return Duration::zero();
  if (!crosses_hosts(from, to)) return settings_.inside_latency;
  double factor = 1;
  for (const DegradedLink& link : settings_.degraded)
    if ((link.from == from && link.to == to) || (link.from == to && link.to == from))
      factor *= link.latency_factor;
  if (with_jitter) factor *= 1 + static_cast<double>(scheduler_.random().below(100)) / 100;
  return Duration(
      static_cast<Duration::rep>(static_cast<double>(settings_.outside_latency.count()) * factor));
}

Duration Sockets::transfer_time(Process from, Process to, std::size_t bytes) const {
  if (!crosses_hosts(from, to)) return Duration::zero();
  double rate = settings_.bytes_per_ns;
  for (const DegradedLink& link : settings_.degraded)
    if ((link.from == from && link.to == to) || (link.from == to && link.to == from))
      rate *= link.bandwidth_factor;
  return Duration(static_cast<Duration::rep>(static_cast<double>(bytes) / rate));
}

bool Sockets::is_lost(Process from, Process to, std::uint64_t message) const {
  return std::ranges::any_of(settings_.lost, [&](const LostLink& link) {
    return link.from == from && link.to == to && message >= link.step && scheduler_.elapsed() >= link.since &&
           crosses_hosts(from, to);
  });
}

bool Sockets::is_lost_next(Process from, Process to) const {
  const auto counted = messages_.find({from, to});
  return is_lost(from, to, counted == messages_.end() ? 1 : counted->second + 1);
}

bool Sockets::drops_byte(Process from, Process to) const {
  return std::ranges::any_of(settings_.dropped, [&](const DroppedByte& byte) {
    return byte.from == from && byte.to == to && byte.step == messages_.at({from, to});
  });
}

bool Sockets::pass_faults(Endpoint& endpoint) {
  const Process from = endpoint.owner;
  const Process to = at(endpoint.connection->sockets[1 - endpoint.side]).owner;
  const std::uint64_t message = ++messages_[{from, to}];
  for (const BrokenLink& link : settings_.broken) {
    if (link.from != from || link.to != to || link.step != message || !crosses_hosts(from, to)) continue;
    scheduler_.note(from, "link breaks", to, message);
    reset(*endpoint.connection, scheduler_.now());
  }
  return is_lost(from, to, message);
}

void Sockets::reset(Connection& connection, TimePoint when) noexcept {
  for (Pipe& pipe : connection.pipes) pipe.reset(when);
}

int Sockets::send(int socket, std::span<const std::byte> first, std::span<const std::byte> second,
                  std::span<const int> descriptors) {
  Endpoint& endpoint = at(socket);
  const int result = write(endpoint, first, second, descriptors);
  scheduler_.note(endpoint.owner, "sends", static_cast<std::uint64_t>(socket - kFirstSocket),
                  static_cast<std::uint64_t>(result));
  return result;
}

bool Sockets::has_passed_most(unsigned host) const noexcept {
  if (!settings_.most_passed_descriptors) return false;
  std::size_t passed = 0;
  for (const auto& endpoint : endpoints_)
    if (endpoint->connection && settings_.host_of[endpoint->owner] == host)
      passed += outgoing(*endpoint).held_descriptors();
  return passed >= *settings_.most_passed_descriptors;
}

int Sockets::write(Endpoint& endpoint, std::span<const std::byte> first, std::span<const std::byte> second,
                   std::span<const int> descriptors) {
  if (!endpoint.connection || is_broken_) return -ENOTCONN;
  if (endpoint.is_shut) return -EPIPE;
  const TimePoint now = scheduler_.now();
  if (incoming(endpoint).is_reset(now)) return -EPIPE;
  if (!descriptors.empty() && has_passed_most(settings_.host_of[endpoint.owner])) return -ETOOMANYREFS;
  const bool is_lost = pass_faults(endpoint);
  Pipe& pipe = outgoing(endpoint);
  const Endpoint& peer = at(endpoint.connection->sockets[1 - endpoint.side]);
  std::size_t bytes = std::min(first.size() + second.size(), pipe.room());
  if (bytes == 0 && first.size() + second.size() != 0) return -EAGAIN;
  if (bytes > kWholeBytes && scheduler_.random().chance(settings_.tiny_read_percent))
    bytes = scheduler_.random().between(kWholeBytes, bytes);
  const Duration there = latency(endpoint.owner, peer.owner, true);
  const bool is_answer_lost = is_lost_next(peer.owner, endpoint.owner);
  if (is_lost || (peer.is_shut && is_answer_lost)) {
    pipe.lose(bytes, now);
  } else if (peer.is_shut) {  // its kernel answers with a reset
    for (Pipe& way : endpoint.connection->pipes) way.reset(std::max(now + 2 * there, way.last_arrival()));
  } else {
    std::vector<std::byte> whole(first.begin(),
                                 first.begin() + static_cast<std::ptrdiff_t>(std::min(bytes, first.size())));
    whole.insert(whole.end(), second.begin(),
                 second.begin() + static_cast<std::ptrdiff_t>(bytes - whole.size()));
    if (drops_byte(endpoint.owner, peer.owner)) whole.pop_back();
    std::vector<int> copies;
    for (const int descriptor : descriptors) copies.push_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    const TimePoint begins = std::max(now, pipe.last_arrival() - there);
    pipe.push(whole, begins + there + transfer_time(endpoint.owner, peer.owner, bytes), std::move(copies));
  }
  return static_cast<int>(bytes);
}

int Sockets::unacknowledged(int socket) const noexcept {
  const Endpoint& endpoint = at(socket);
  if (!endpoint.connection || incoming(endpoint).is_reset(scheduler_.now())) return 0;
  return static_cast<int>(outgoing(endpoint).coming_bytes(scheduler_.now()));
}

Duration Sockets::silence(int socket) const noexcept {
  const Endpoint& endpoint = at(socket);
  if (!endpoint.connection || incoming(endpoint).is_reset(scheduler_.now())) return {};
  return scheduler_.now() - std::min(scheduler_.now(), outgoing(endpoint).lost_since());
}

int Sockets::receive(int socket, std::span<std::byte> into, std::vector<int>& descriptors) {
  Endpoint& endpoint = at(socket);
  if (!endpoint.connection) return -ENOTCONN;
  Pipe& pipe = incoming(endpoint);
  const std::size_t there = std::min(pipe.readable_bytes(scheduler_.now()), into.size());
  if (there > 1 && scheduler_.random().chance(settings_.tiny_read_percent))
    into = into.first(scheduler_.random().between(1, there));
  int result = pipe.read(into, scheduler_.now(), descriptors);
  if (result == -EAGAIN && endpoint.is_shut) result = 0;
  scheduler_.note(endpoint.owner, "receives", static_cast<std::uint64_t>(socket - kFirstSocket),
                  static_cast<std::uint64_t>(result));
  return result;
}

int Sockets::accept(int socket) {
  Endpoint& endpoint = at(socket);
  if (endpoint.newcomers.empty() || endpoint.newcomers.front().arrives > scheduler_.now()) return -EAGAIN;
  const int newcomer = endpoint.newcomers.front().socket;
  endpoint.newcomers.pop_front();
  return newcomer;
}

TimePoint Sockets::begin_connect(int socket, const Address& to) {
  const Endpoint& endpoint = at(socket);
  const auto found = listeners_.find(place_of(settings_.host_of[endpoint.owner], to));
  if (found == listeners_.end()) return scheduler_.now() + 2 * settings_.inside_latency;
  const Process other = at(found->second).owner;
  const bool is_cut = is_lost_next(endpoint.owner, other) || is_lost_next(other, endpoint.owner);
  return is_cut ? kNever : scheduler_.now() + 2 * latency(endpoint.owner, other, true);
}

int Sockets::finish_connect(int socket, const Address& to) {
  Endpoint& endpoint = at(socket);
  const unsigned host = settings_.host_of[endpoint.owner];
  const auto found = listeners_.find(place_of(host, to));
  if (!to.is_unix() && !has_route_[endpoint.owner]) return -ENETUNREACH;
  if (is_broken_ || found == listeners_.end()) return -ECONNREFUSED;
  Endpoint& listener = at(found->second);
  const int other_socket = open(listener.owner);
  Endpoint& other = at(other_socket);
  const std::size_t capacity =
      to.is_unix() || endpoint.owner == other.owner ? kUnixBufferBytes : settings_.buffer_bytes;
  endpoint.connection = other.connection = std::make_shared<Connection>(capacity, socket, other_socket);
  other.side = 1;
  endpoint.remote = other.local = to;
  endpoint.local = other.remote =
      to.is_unix() ? nameless_unix() : Address::parse(fmt::format("{}:{}", ip_of(host), next_port_++));
  listener.newcomers.push_back({other_socket, scheduler_.now()});
  scheduler_.note(endpoint.owner, "connects to", listener.owner,
                  static_cast<std::uint64_t>(other_socket - kFirstSocket));
  return 0;
}

TimePoint Sockets::readable_at(int socket) const {
  const Endpoint& endpoint = at(socket);
  if (endpoint.is_listening) return endpoint.newcomers.empty() ? kNever : endpoint.newcomers.front().arrives;
  if (!endpoint.connection || endpoint.is_shut) return scheduler_.now();
  return incoming(endpoint).readable_at();
}

TimePoint Sockets::writable_at(int socket) const {
  const Endpoint& endpoint = at(socket);
  const bool is_now =
      !endpoint.connection || endpoint.is_shut || is_broken_ || outgoing(endpoint).room() != 0;
  return is_now ? scheduler_.now() : incoming(endpoint).reset_at();
}

void Sockets::shutdown(int socket) noexcept {
  Endpoint& endpoint = at(socket);
  if (endpoint.is_shut || !endpoint.connection) return;
  endpoint.is_shut = true;
  const Process peer = at(endpoint.connection->sockets[1 - endpoint.side]).owner;
  const bool is_cut = is_lost_next(endpoint.owner, peer);
  if (!is_cut) outgoing(endpoint).end(scheduler_.now() + latency(endpoint.owner, peer, true));
  scheduler_.note(endpoint.owner, "shuts down", static_cast<std::uint64_t>(socket - kFirstSocket));
}

/// The kernel resets a connection whose bytes were not all read.
void Sockets::leave(Endpoint& endpoint) noexcept {
  if (!endpoint.connection) return;
  const bool is_unread = incoming(endpoint).readable_bytes(scheduler_.now()) != 0;
  const int socket = endpoint.connection->sockets[endpoint.side];
  shutdown(socket);
  const Process peer = at(endpoint.connection->sockets[1 - endpoint.side]).owner;
  const bool is_cut = is_lost_next(endpoint.owner, peer);
  const TimePoint arrives = scheduler_.now() + latency(endpoint.owner, peer, false);
  if (is_unread && !is_cut) outgoing(endpoint).reset(std::max(arrives, outgoing(endpoint).last_arrival()));
}

void Sockets::close(int socket) noexcept {
  Endpoint& endpoint = at(socket);
  COHORT_ASSERT(!endpoint.is_closed || is_broken_, "socket {} is closed twice", socket);
  endpoint.is_closed = true;
  if (endpoint.is_held_by_child) return;
  forget_listener(socket);
  endpoint.is_listening = false;
  for (const Newcomer& newcomer : std::exchange(endpoint.newcomers, {})) {
    Endpoint& unseen = at(newcomer.socket);
    reset(*unseen.connection, scheduler_.now());
    unseen.is_shut = unseen.is_closed = true;
  }
  leave(endpoint);
}

/// Nobody is let in there any more.
void Sockets::forget_listener(int socket) noexcept {
  const Endpoint& endpoint = at(socket);
  if (!endpoint.is_listening) return;
  const auto found = listeners_.find(place_of(settings_.host_of[endpoint.owner], endpoint.local));
  if (found != listeners_.end() && found->second == socket) listeners_.erase(found);
}

void Sockets::fork(Process process) noexcept {
  std::set<int> not_accepted;  // the listener's, and nobody's descriptors yet
  for (const auto& endpoint : endpoints_)
    for (const Newcomer& newcomer : endpoint->newcomers) not_accepted.insert(newcomer.socket);
  std::uint64_t copies = 0;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    Endpoint& endpoint = *endpoints_[i];
    const bool is_descriptor = endpoint.owner == process && !endpoint.is_closed &&
                               !not_accepted.contains(kFirstSocket + static_cast<int>(i));
    if (!is_descriptor || endpoint.is_guarded) continue;
    endpoint.is_held_by_child = true;
    ++copies;
  }
  scheduler_.note(process, "forks", copies);
}

void Sockets::close_all_of(Process process) noexcept {
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    Endpoint& endpoint = *endpoints_[i];
    if (endpoint.owner != process || endpoint.is_closed || endpoint.is_held_by_child) continue;
    // It goes on listening, to nobody: when everything is over its process goes on once more, and a socket
    // that always has something to tell would never let it wait.
    forget_listener(kFirstSocket + static_cast<int>(i));
    leave(endpoint);
  }
}

void Sockets::break_all() noexcept {
  is_broken_ = true;
  listeners_.clear();
  for (const auto& endpoint : endpoints_)
    if (endpoint->connection) reset(*endpoint->connection, scheduler_.now());
}

int Sockets::local_address(int socket, Address& into) const {
  into = at(socket).local;
  return 0;
}

int Sockets::remote_address(int socket, Address& into) const {
  const Endpoint& endpoint = at(socket);
  if (!endpoint.connection) return -ENOTCONN;
  into = endpoint.remote;
  return 0;
}

std::size_t Sockets::open_count() const noexcept {
  const auto open = std::ranges::count(endpoints_, false, [](const auto& one) { return one->is_closed; });
  return static_cast<std::size_t>(open);
}

std::string Sockets::peer_of(int socket) const {
  const Endpoint& endpoint = at(socket);
  if (!endpoint.connection) return fmt::format("whoever calls {}", endpoint.local.to_string());
  return fmt::format("rank {}", at(endpoint.connection->sockets[1 - endpoint.side]).owner);
}

}  // namespace cohort::world
