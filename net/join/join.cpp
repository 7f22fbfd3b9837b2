// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/interfaces.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/host.h>
#include <cohort/net/auth/authenticated_socket.h>
#include <cohort/net/join/join_environment.h>
#include <cohort/net/join/join_state.h>
#include <cohort/net/join/member.h>
#include <cohort/net/join/rendezvous.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

namespace cohort {
namespace {

/// A rank 0 that was killed may hold its address for a moment longer: the kernel ends its operations later
/// than itself.
constexpr Duration kBindPatience = std::chrono::milliseconds(500);
constexpr Duration kBindInterval = std::chrono::milliseconds(20);

/// What everybody knows under COHORT_AUTH=none.
Secret no_secret() {
  static std::atomic_flag was_warned;
  if (!was_warned.test_and_set())
    log(LogLevel::warn,
        "COHORT_AUTH=none: whoever reaches this job's ports can join it, read its data and change it");
  constexpr std::array<std::byte, Secret::kBytes> kZeros{};
  return Secret::from_bytes(kZeros);
}

/// Where the kernel's word on a peer's user is to decide who is given the secret.
void check_user(const JoinState& state) {
  if (host::tells_users_apart()) return;
  throw Error(
      ErrorKind::AuthFailed,
      fmt::format(
          "rank {} cannot tell at {} who is of its own user, and gives or takes no secret: it runs as "
          "user {}, by which its user namespace shows all users that have no number there. Put a "
          "secret into a file (umask 077; openssl rand -hex 32 > FILE) and give all ranks "
          "COHORT_SECRET_FILE=FILE, or run as a user whom the namespace tells from others",
          state.options.rank, state.where, host::user_id()));
}

void choose_secret(JoinState& state) {
  Membership& membership = state.membership;
  if (state.options.secret && state.options.secret->is_set()) {
    membership.secret = Secret::from_bytes(state.options.secret->bytes());
  } else if (!state.meets_by_tcp() || state.options.size == 1) {
    if (state.options.size > 1) check_user(state);
    state.is_secret_made_here = state.options.rank == 0;  // the others are given it
    if (state.is_secret_made_here) membership.secret = Secret::random();
  } else if (state.options.is_unauthenticated) {
    membership.secret = no_secret();
  } else {
    throw Error(
        ErrorKind::AuthFailed,
        fmt::format(
            "rank {} will not meet others at {} without a secret, since anybody could join there: put one "
            "into a file (umask 077; openssl rand -hex 32 > FILE) and give all ranks "
            "COHORT_SECRET_FILE=FILE, or set COHORT_AUTH=none where nobody else reaches this network",
            state.options.rank, state.where));
  }
}

Task<Listener> listen_patiently(const JoinState& state) {
  const TimePoint until = after(state.engine.now(), kBindPatience);
  for (;;) {
    try {
      Listener listener(state.engine, state.address);
      co_return listener;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::SystemError || state.engine.now() >= until) throw;
    }
    co_await state.engine.sleep_for(kBindInterval);
  }
}

/// Somebody else listens at our address: who that is.
Task<Error> ask_who_listens(const JoinState& state, Error taken) {
  constexpr Duration kPatience = std::chrono::seconds(1);
  std::optional<Secret> secret;
  if (!state.is_secret_made_here) secret = Secret::from_bytes(state.membership.secret.bytes());
  std::optional<Error> answer;
  try {
    const TimePoint until = after(state.engine.now(), kPatience);
    Task<Socket> call = call_rank_0(state, secret, until);
    Task<Socket> timed = with_deadline(kPatience, std::move(call));
    co_await timed;
  } catch (const Error& error) {
    answer = error;
  }
  const bool is_known =
      answer && (answer->kind() == ErrorKind::DuplicateRank || answer->kind() == ErrorKind::WorldSize ||
                 answer->kind() == ErrorKind::Mismatch);
  const std::string head =
      is_known ? fmt::format("another job is meeting at {}", state.where) : std::string(taken.message());
  const Error told(is_known ? answer->kind() : taken.kind(),
                   fmt::format("{} ({}): give each of two jobs a COHORT_NAME or a COHORT_ADDR of its own",
                               head, answer ? answer->message() : "it has just ended"));
  co_return is_known ? told.with_culprit(0) : told;
}

/// Rank 0 takes data connections at the host of its address, unless COHORT_SOCKET_IFNAME says otherwise.
Address address_for_data(const JoinState& state) {
  if (!state.meets_by_tcp() || state.options.interfaces.is_any()) return state.address;
  return choose_own_address(state.options.interfaces, interface_addresses(), state.address, state.address);
}

/// A wrong address is wrong for every rank: none of them has to wait for the others to say so.
void check_port(const JoinState& state) {
  if (state.meets_by_tcp() && state.options.size > 1 && state.where.ends_with(":0"))
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("rank {} cannot meet others at {}: all ranks have to know the port of rank 0; give "
                    "them one that is free there (COHORT_ADDR)",
                    state.options.rank, state.where));
}

Task<> join_as_rank_0(JoinState& state, std::optional<ControlLinks> links) {
  std::optional<Error> taken;
  Listener listener;
  try {
    Listener bound = co_await listen_patiently(state);
    listener = std::move(bound);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::SystemError) throw;  // nobody can listen there
    taken = error;
  }
  if (taken) {
    const Error told = co_await ask_who_listens(state, *taken);
    throw Error(told);
  }
  std::optional<Error> own_fault = state.options.fault;
  try {
    if (!own_fault) state.listen(address_for_data(state));
  } catch (const Error& error) {
    own_fault = error;
  }
  Rendezvous rendezvous(state, listener, links);
  co_await rendezvous.run(std::move(own_fault));
}

Task<> meet(JoinState& state, std::optional<ControlLinks> links) {
  if (state.options.rank == 0) {
    co_await join_as_rank_0(state, links);
  } else {
    Member member(state);
    co_await member.run();
  }
}

/// What this rank has to be told apart from its fault does without the settings that may be at fault.
void prepare_to_tell(JoinOptions& options) {
  const JoinOptions usual;
  options.timeout = options.timeout > Duration::zero() ? std::min(options.timeout, Rendezvous::kTellingTime)
                                                       : Rendezvous::kTellingTime;
  options.host_timeout = usual.host_timeout;
  const bool is_in_the_way = options.is_unauthenticated || options.encryption == Encryption::forbidden;
  if (is_in_the_way) options.encryption = usual.encryption;
}

/// Of this rank's fault, to all others. What else is in the way does not matter then.
Task<> tell_fault(JoinState& state) {
  if (state.options.size == 1) co_return;
  try {
    check_port(state);
    choose_secret(state);
    co_await meet(state, std::nullopt);
  } catch (const Error& error) {
    log(LogLevel::debug, "rank {}, telling others what is wrong with it: {}", state.options.rank,
        error.message());
  }
}

/// Where a host loses its power or its network, nothing else ends a connection.
void watch_hosts(Membership& membership) {
  for (Rank peer = 0; peer < membership.size; ++peer)
    if (membership.control[peer].is_open() && !membership.shares_host(peer))
      membership.control[peer].set_host_timeout(membership.host_timeout);
}

/// Of a dry run on one machine a user of COHORT_TLS would take a wrong yes home.
void tell_encryption(const Membership& membership) {
  std::size_t encrypted = 0;
  std::size_t inside = 0;
  std::size_t plain = 0;
  for (Rank peer = 0; peer < membership.size; ++peer) {
    const Socket& socket = membership.control[peer];
    if (!socket.is_open() || membership.shares_host(peer)) continue;
    ++(socket.is_protected() ? encrypted : stays_in_host(socket) ? inside : plain);
  }
  const auto tell = [&](std::size_t count, LogLevel level, std::string_view how) {
    if (count != 0)
      log(level, "connections to {} rank{} of other hosts {}", count, count == 1 ? "" : "s", how);
  };
  const bool is_asked_for = membership.encryption == Encryption::required;
  tell(encrypted, LogLevel::info, "are encrypted (TLS 1.3)");
  tell(inside, is_asked_for && membership.rank == 0 ? LogLevel::warn : LogLevel::info,
       "do not leave this machine (COHORT_HOST_ID or COHORT_MACHINE_ID tells hosts apart), and are not "
       "encrypted, whatever COHORT_TLS says");
  tell(plain, LogLevel::info,
       membership.encryption == Encryption::forbidden ? "are not encrypted: COHORT_TLS=off"
                                                      : "are not encrypted: neither end has COHORT_TLS=on");
}

/// What a rank says of itself may be true in its own PID namespace only: what its number is here, the kernel
/// knows.
void see_processes(Membership& membership) {
  for (Rank peer = 0; peer < membership.size; ++peer)
    if (peer != membership.rank && membership.shares_host(peer))
      membership.peers[peer].visible_process = membership.control[peer].peer_credentials().process;
  membership.are_processes_seen = true;
}

}  // namespace

Task<Membership> join(Engine& engine, JoinOptions options, std::uint64_t fabric,
                      std::optional<ControlLinks> links) {
  options.check_place();
  keep_fault(options.fault, [&] { options.check_settings(); });
  if (options.fault) prepare_to_tell(options);
  set_log_rank(options.rank);
  JoinState state(engine, std::move(options));
  if (state.options.fault) {
    co_await tell_fault(state);
    throw Error(*state.options.fault);
  }
  // What a device reads and writes by itself nobody encrypts.
  const bool is_encrypted = state.options.encryption == Encryption::required;
  state.membership.peers[state.options.rank].fabric = is_encrypted ? 0 : fabric;
  check_port(state);
  choose_secret(state);
  if (state.options.size == 1) co_return std::move(state.membership);
  co_await meet(state, links);
  const bool are_some = state.neighbours.size() + 1 < state.membership.size;
  if (state.links == ControlLinks::neighbours && are_some) state.membership.neighbours = state.neighbours;
  see_processes(state.membership);
  watch_hosts(state.membership);
  tell_encryption(state.membership);
  log(LogLevel::debug, "rank {} joined '{}' of {} after {}", state.options.rank, state.options.name,
      state.options.size, state.elapsed());
  co_return std::move(state.membership);
}

}  // namespace cohort
