// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/network.h>
#include <cohort/engine/world/pipe.h>
#include <cohort/engine/world/scheduler.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cohort::world {

/// All sockets of a world, and what is on its way between them.
///
/// Unix sockets live within a host, TCP reaches everywhere: host h is 10.0.0.(h+1) and, to itself, 127.0.0.1.
/// Results are those of the system calls, failures minus the error number. Threads: whose turn it is.
class Sockets : Immovable {
 public:
  Sockets(const Settings& settings, Scheduler& scheduler);
  ~Sockets();

  int open(Process owner);
  int listen(int socket, const Address& address);
  void close(int socket) noexcept;
  void shutdown(int socket) noexcept;
  /// As send() with MSG_DONTWAIT. `descriptors` stay the caller's.
  int send(int socket, std::span<const std::byte> first, std::span<const std::byte> second,
           std::span<const int> descriptors = {});
  /// Bytes on their way.
  [[nodiscard]] int unacknowledged(int socket) const noexcept;
  /// Since the first bytes that nobody will get were sent.
  [[nodiscard]] Duration silence(int socket) const noexcept;
  int receive(int socket, std::span<std::byte> into, std::vector<int>& descriptors);
  /// The new socket, or -EAGAIN.
  int accept(int socket);
  /// Begins; finish_connect() is right from the returned moment on (kNever: what is sent there gets lost).
  TimePoint begin_connect(int socket, const Address& to);
  int finish_connect(int socket, const Address& to);

  /// When there are bytes, or a connection to accept.
  [[nodiscard]] TimePoint readable_at(int socket) const;
  [[nodiscard]] TimePoint writable_at(int socket) const;

  int local_address(int socket, Address& into) const;
  int remote_address(int socket, Address& into) const;
  [[nodiscard]] bool is_unix(int socket) const { return at(socket).local.is_unix(); }
  /// Those that somebody holds.
  [[nodiscard]] std::size_t open_count() const noexcept;
  /// "rank 3 at 10.0.0.2:4001", for people.
  [[nodiscard]] std::string peer_of(int socket) const;

  /// No child that is forked from now on holds it.
  void guard(int socket) noexcept { at(socket).is_guarded = !settings_.children_keep_all; }
  /// A child of the process, which lives until everything is over, holds what is not guarded.
  void fork(Process process) noexcept;
  /// The kernel ends everything that the process holds, and no child of it.
  void close_all_of(Process process) noexcept;
  /// Whether new connections of a process find a way; those that there are go on in any case.
  void set_has_route(Process process, bool has_route) noexcept { has_route_[process] = has_route; }
  /// Every connection is reset, everything else is refused from now on.
  void break_all() noexcept;

 private:
  struct Connection;
  struct Newcomer {
    int socket;
    TimePoint arrives;
  };
  struct Endpoint {
    Process owner = 0;
    Address local;
    Address remote;
    std::shared_ptr<Connection> connection;
    unsigned side = 0;
    bool is_listening = false;
    bool is_shut = false;
    bool is_closed = false;
    bool is_guarded = false;
    bool is_held_by_child = false;
    std::deque<Newcomer> newcomers;
  };
  using Place = std::pair<unsigned, std::string>;  ///< host and address

  [[nodiscard]] Endpoint& at(int socket) const;
  [[nodiscard]] Pipe& incoming(const Endpoint& endpoint) const;
  [[nodiscard]] Pipe& outgoing(const Endpoint& endpoint) const;
  [[nodiscard]] Place place_of(unsigned from_host, const Address& address) const;
  [[nodiscard]] Duration latency(Process from, Process to, bool with_jitter) const;
  [[nodiscard]] Duration transfer_time(Process from, Process to, std::size_t bytes) const;
  [[nodiscard]] bool crosses_hosts(Process from, Process to) const {
    return settings_.host_of[from] != settings_.host_of[to];
  }
  /// Counts a message, and lets the faults of its way happen. True: it is lost.
  bool pass_faults(Endpoint& endpoint);
  [[nodiscard]] bool is_lost(Process from, Process to, std::uint64_t message) const;
  [[nodiscard]] bool is_lost_next(Process from, Process to) const;
  [[nodiscard]] bool drops_byte(Process from, Process to) const;
  /// Whether the kernel would refuse further descriptors of that host's processes.
  [[nodiscard]] bool has_passed_most(unsigned host) const noexcept;
  int write(Endpoint& endpoint, std::span<const std::byte> first, std::span<const std::byte> second,
            std::span<const int> descriptors);
  void connect_ends(Endpoint& caller, Endpoint& listener, const Address& to, const std::string& name);
  void leave(Endpoint& endpoint) noexcept;
  void forget_listener(int socket) noexcept;
  void reset(Connection& connection, TimePoint when) noexcept;

  const Settings& settings_;
  Scheduler& scheduler_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::map<Place, int> listeners_;
  std::map<std::pair<Process, Process>, std::uint64_t> messages_;
  std::vector<bool> has_route_;  ///< by process
  unsigned next_port_ = 40000;
  bool is_broken_ = false;
};

}  // namespace cohort::world
