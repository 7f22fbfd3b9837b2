// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_plane.h>

#include <cohort/engine/failure.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace cohort {
namespace {

/// A process that ends says goodbye through its socket first; this long we let that arrive after its end was
/// seen.
constexpr Duration kLastWordsGrace = std::chrono::milliseconds(50);
constexpr std::size_t kMostDescriptors = 2;
/// While too many descriptors are on their way.
constexpr Duration kRoomInterval = std::chrono::milliseconds(1);
/// While this host has nothing to receive with.
constexpr Duration kShortageInterval = std::chrono::milliseconds(50);

/// In place of an error number: what is this rank's own limit.
constexpr int kQueueIsFull = 0;

/// What this rank has not enough of; others are the connection's end.
bool is_shortage(int error_number) noexcept {
  return error_number == ENOBUFS || error_number == ENOMEM || error_number == kQueueIsFull;
}

Error shortage_error(int error_number, const PeerInfo& peer) {
  if (error_number != kQueueIsFull)
    return system_error(error_number, fmt::format("telling {} something", peer.describe()));
  return Error(ErrorKind::ResourceLimit,
               fmt::format("{} words wait for {}, which takes none: it computes, or is stopped, while groups "
                           "with it are made and closed; make fewer before it calls again",
                           ControlQueue::kMost, peer.describe()));
}

std::span<const std::byte> bytes_of(const ControlMessage& message) {
  return std::as_bytes(std::span(&message, 1));
}

}  // namespace

ControlPlane::ControlPlane(Engine& engine, Membership& membership, Handler& handler)
    : engine_(engine), membership_(membership), handler_(handler), relay_(membership) {}

Error ControlPlane::ended_while_joining(Rank peer, std::string_view how) const {
  return Error(ErrorKind::PeerDied, fmt::format("{} ended while the ranks were joining ({}); see what it "
                                                "printed, then start all ranks again",
                                                membership_.peers[peer].describe(), how))
      .with_culprit(peer);
}

void ControlPlane::HelloFailures::note_words(std::exception_ptr failure) noexcept {
  const bool may = may_go_on;
  note(std::move(failure));
  may_go_on = may;
}

/// What a rank says goes before how its connection ended, which is what came of it.
void ControlPlane::HelloFailures::note(std::exception_ptr failure) noexcept {
  may_go_on = false;
  bool is_end = false;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Mismatch && !mismatch) mismatch = failure;
    is_end = error.kind() == ErrorKind::PeerDied;
  } catch (...) {  // a failure as any other
  }
  if (!first || (is_first_an_end && !is_end)) {
    first = failure;
    is_first_an_end = is_end;
  }
}

Task<> ControlPlane::exchange_hellos(const HelloFor& hello_for, const Taken& taken, TaskScope& services) {
  CancelScope* around = co_await current_scope();
  services_ = &services;
  services.spawn(report_shortages());
  if (membership_.ranks_of_host() < membership_.size) services.spawn(watch_hosts());
  if (is_sparse()) services.spawn(bridge_gaps());
  const auto is_met = [this](Rank peer) {
    return peer != membership_.rank && membership_.is_neighbour(peer);
  };
  for (Rank peer = 0; peer < membership_.size; ++peer)
    if (is_met(peer)) services.spawn(tell(peer));
  HelloFailures failures;
  Hellos hellos{taken, failures};
  hellos_ = &hellos;
  TaskScope hearing(around);
  for (Rank peer = 0; peer < membership_.size; ++peer)
    if (is_met(peer)) hearing.spawn(hear_hello(peer, taken, failures));
  // Each begins behind itself, so that not all send to the same rank first.
  for (Rank distance = 1; distance < membership_.size; ++distance) {
    const Rank peer = (membership_.rank + distance) % membership_.size;
    if (!is_met(peer)) continue;
    try {
      const Hello hello = hello_for(peer);
      co_await send_hello(peer, hello);
      peers_[peer].is_greeted = true;
      listen_if_met(peer);
    } catch (const Error& error) {
      failures.note(std::current_exception());
      peers_[peer].has_hung_up = error.kind() == ErrorKind::PeerDied;
      if (peers_[peer].has_hung_up && peers_[peer].is_taken) hearing.spawn(hear_last_words(peer, failures));
    } catch (...) {
      failures.note(std::current_exception());
    }
  }
  try {
    co_await hearing.join();
  } catch (...) {
    failures.note(std::current_exception());
  }
  try {
    if (is_sparse() && failures.may_go_on) co_await exchange_passed_hellos(hello_for);
  } catch (...) {
    failures.note(std::current_exception());
  }
  hellos_ = nullptr;
  if (failures.mismatch) std::rethrow_exception(failures.mismatch);
  if (failures.first) std::rethrow_exception(failures.first);
}

Task<> ControlPlane::hear_hello(Rank peer, const Taken& taken, HelloFailures& failures) {
  try {
    ControlMessage message;
    std::vector<Descriptor> received;
    co_await receive_hello(peer, message, received);
    peers_[peer].said_hello = true;
    try {
      taken(peer, message, std::move(received));
    } catch (...) {
      if (!is_sparse()) throw;  // else it is heard all the same: others speak through it
      failures.note_words(std::current_exception());
    }
    peers_[peer].is_taken = true;
    listen_if_met(peer);
    if (peers_[peer].has_hung_up) co_await hear_last_words(peer, failures);
  } catch (...) {
    failures.note(std::current_exception());
  }
}

/// Why a peer left that had said its hello and did not wait for this rank's: most likely because of what a
/// third one had told it, which it passed on.
Task<> ControlPlane::hear_last_words(Rank peer, HelloFailures& failures) {
  try {
    co_await hear(peer, membership_.control[peer]);
  } catch (const Error& error) {
    const bool is_end = error.kind() == ErrorKind::SystemError || error.kind() == ErrorKind::LinkFault;
    if (!is_end) failures.note(std::current_exception());
  }
}

std::optional<Rank> ControlPlane::awaited() const noexcept {
  for (Rank peer = 0; peer < membership_.size; ++peer)
    if (peer != membership_.rank && !peers_[peer].said_hello) return peer;
  return std::nullopt;
}

Task<> ControlPlane::send_hello(Rank peer, const Hello& hello) {
  const bool is_local = membership_.shares_host(peer);
  const std::span<const int> descriptors = is_local ? hello.descriptors : std::span<const int>();
  std::string failure;
  try {
    bool is_sent = false;
    while (!is_sent) {
      const bool has_room = co_await membership_.control[peer].pass(bytes_of(hello.message), descriptors);
      is_sent = has_room;
      waits_for_room_ = !is_sent;
      if (!is_sent) co_await engine_.sleep_for(kRoomInterval);
    }
    co_return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::SystemError) throw;
    failure = error.message();
  }
  waits_for_room_ = false;
  throw ended_while_joining(peer, failure);
}

Task<> ControlPlane::receive_hello(Rank peer, ControlMessage& message, std::vector<Descriptor>& descriptors) {
  const auto into = std::as_writable_bytes(std::span(&message, 1));
  std::string end = "the connection ended";
  bool came = false;
  try {
    const bool is_whole = co_await membership_.control[peer].receive(into, descriptors, kMostDescriptors);
    came = is_whole;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::SystemError && error.kind() != ErrorKind::LinkFault) throw;
    end = error.message();
  }
  if (!came) throw ended_while_joining(peer, end);
  const bool gives_up =
      message.magic == ControlMessage::kMagic && message.type == ControlMessage::Type::revoke;
  if (gives_up) throw message.cause();
  if (message.magic != ControlMessage::kMagic || message.type != ControlMessage::Type::hello)
    throw Error(ErrorKind::ProtocolError,
                fmt::format("{} sent something else than its hello (type {})",
                            membership_.peers[peer].describe(), static_cast<unsigned>(message.type)))
        .with_culprit(peer);
}

void ControlPlane::refuse(Membership& membership, const Error& cause) noexcept {
  const ControlMessage message = ControlMessage::revoke(cause, membership.rank);
  for (Socket& socket : membership.control)
    if (socket.is_open()) (void)socket.try_send(bytes_of(message));
}

void ControlPlane::listen_if_met(Rank peer) {
  if (!peers_[peer].is_taken || !peers_[peer].is_greeted) return;
  services_->spawn(listen(peer));
  if (membership_.shares_host(peer) && !membership_.shares_process(peer))
    services_->spawn(watch_process(peer));
}

Task<> ControlPlane::listen(Rank peer) {
  const bool has_ended = co_await hear_until_end(peer, membership_.control[peer]);
  if (has_ended) end(peer);
}

/// What this rank has not enough for is told, and no end of the peer: it is heard again as soon as there is.
/// False: this rank is leaving itself.
Task<bool> ControlPlane::hear_until_end(Rank peer, Socket& socket) {
  for (bool has_ended = false; !has_ended;) {
    try {
      co_await hear(peer, socket);
      has_ended = true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Cancelled) co_return false;
      has_ended = !is_own_fault(error.kind());
      if (!has_ended) services_->spawn(fail(error));
    } catch (const std::bad_alloc&) {
      services_->spawn(fail(as_error(std::current_exception())));
    }
    if (!has_ended) co_await engine_.sleep_for(kShortageInterval);
  }
  co_return true;
}

/// Until its connection has ended, or says what makes no sense.
Task<> ControlPlane::hear(Rank peer, Socket& socket) {
  for (;;) {
    ControlMessage message;
    const auto into = std::as_writable_bytes(std::span(&message, 1));
    const bool came = co_await socket.receive(into);
    if (!came || message.magic != ControlMessage::kMagic) co_return;
    if (message.is_passed_on())
      take_passed(peer, message);
    else
      take(peer, message);
  }
}

/// Groups go on after a goodbye of the communicator that they are in.
void ControlPlane::take(Rank peer, const ControlMessage& message) {
  const bool is_of_group = message.group != 0 || message.type == ControlMessage::Type::invite;
  if (is_of_group) {
    if (group_handler_ != nullptr) group_handler_->on_group_message(peer, message);
    return;
  }
  const bool is_cause = message.is_passed_on() && message.type == ControlMessage::Type::revoke;
  if (peers_[peer].departed && !is_cause) return;
  handler_.on_control(peer, message);
  if (message.type != ControlMessage::Type::goodbye) return;
  peers_[peer].said_goodbye = true;
  peers_[peer].goodbye_after = message.sequence;
  depart(peer);
}

/// A forked child may hold the peer's sockets open after its end; the kernel's word about the process does
/// not depend on that. Where it cannot be had (a PID namespace that is not visible from here), the socket
/// alone tells.
Task<> ControlPlane::watch_process(Rank peer) {
  const std::uint32_t process = membership_.peers[peer].visible_process;
  if (process == 0) co_return;
  try {
    peers_[peer].process.emplace(engine_, process);
    co_await peers_[peer].process->until_exit();
    co_await engine_.sleep_for(kLastWordsGrace);
  } catch (const Error&) {
    co_return;
  }
  end(peer);
}

bool ControlPlane::has_process_ended(Rank peer) const noexcept {
  const Peer& state = peers_[peer];
  return state.has_ended || (state.process && state.process->has_ended());
}

void ControlPlane::end(Rank peer) noexcept {
  if (std::exchange(peers_[peer].has_ended, true)) return;
  const bool is_of_host = !peers_[peer].said_goodbye && peers_[peer].host_watch.is_in_doubt();
  if (is_of_host) membership_.control[peer].give_host_up();
  peers_[peer].queue.clear();
  if (has_drained_.untaken_posts() == 0) has_drained_.post();
  depart(peer);
  if (group_handler_ != nullptr) group_handler_->on_end(peer, peers_[peer].said_goodbye);
}

void ControlPlane::depart(Rank peer) noexcept {
  Peer& state = peers_[peer];
  if (std::exchange(state.departed, true)) return;
  handler_.on_departure(peer, state.said_goodbye, state.goodbye_after);
  if (is_sparse() && has_departed_.untaken_posts() == 0) has_departed_.post();
}

bool ControlPlane::is_reached(Rank peer) const noexcept {
  const bool may_call = is_sparse() && peer != membership_.rank && !membership_.is_neighbour(peer);
  return (membership_.control[peer].is_open() || may_call) && !peers_[peer].has_ended;
}

Duration ControlPlane::silence(Rank peer) const noexcept {
  return is_linked(peer) ? membership_.control[peer].silence() : Duration::zero();
}

bool ControlPlane::send_directly(Rank peer, const ControlMessage& message) noexcept {
  Peer& state = peers_[peer];
  if (message.group == 0 && state.departed && !message.is_passed_on()) return false;
  if (!state.is_greeted && !message.is_last_word()) return false;  // it waits for a hello
  if (!is_reached(peer)) return false;
  int result = -EAGAIN;
  if (state.queue.is_empty() && is_linked(peer)) {
    const std::span<const std::byte> bytes = bytes_of(message);
    result = membership_.control[peer].try_send_some(bytes, {});
    if (std::cmp_equal(result, bytes.size())) return true;
  }
  const bool is_error = result < 0 && result != -EAGAIN && result != -EINTR;
  if (!is_error && state.queue.push(message, static_cast<std::size_t>(std::max(result, 0)))) {
    if (state.has_queued.untaken_posts() == 0) state.has_queued.post();
    reach(peer);
    return true;
  }
  const int why = is_error ? -result : state.queue.is_full() ? kQueueIsFull : ENOMEM;
  cannot_tell(peer, why, message.is_last_word() || result > 0);
  return false;
}

/// Allocates nothing: there may be no memory to say so with.
void ControlPlane::cannot_tell(Rank peer, int error_number, bool is_last_word) noexcept {
  if (!is_shortage(error_number) || services_ == nullptr) {
    membership_.control[peer].shutdown();
    return;
  }
  peers_[peer].hangs_up |= is_last_word;
  if (has_shortage_.untaken_posts() != 0) return;  // the first one is told
  shortage_ = error_number;
  shortage_for_ = peer;
  has_shortage_.post();
}

/// What is told by the end of a connection comes after the cause, lest that end be taken for the peer's.
Task<> ControlPlane::report_shortages() {
  for (;;) {
    co_await has_shortage_.wait();
    services_->spawn(fail(shortage_error(shortage_, membership_.peers[shortage_for_])));
    co_await engine_.let_others_run();
    for (Rank peer = 0; peer < membership_.size; ++peer)
      if (std::exchange(peers_[peer].hangs_up, false)) membership_.control[peer].shutdown();
  }
}

Task<> ControlPlane::watch_hosts() {
  const Duration longest = membership_.host_timeout;
  for (;;) {
    co_await engine_.sleep_for(longest / HostWatch::kLooks);
    for (Rank peer = 0; peer < membership_.size; ++peer) {
      if (peer == membership_.rank || membership_.shares_host(peer) || !is_linked(peer)) continue;
      Socket& socket = membership_.control[peer];
      const std::optional<TcpState> state = socket.tcp_state();
      const bool is_lost = state && peers_[peer].host_watch.look(*state, engine_.now(), longest);
      if (is_lost) socket.give_host_up();
    }
  }
}

Task<> ControlPlane::tell(Rank peer) {
  for (;;) {
    co_await peers_[peer].has_queued.wait();
    while (has_untold(peer)) {
      const int ready = co_await membership_.control[peer].writable();
      if (ready < 0 && ready != -EINTR) co_await engine_.sleep_for(kShortageInterval);
      flush(peer);
    }
    if (has_drained_.untaken_posts() == 0) has_drained_.post();
  }
}

void ControlPlane::flush(Rank peer) noexcept {
  ControlQueue& queue = peers_[peer].queue;
  while (has_untold(peer)) {
    const int result = membership_.control[peer].try_send_some(queue.unsent(), {});
    if (result == -EAGAIN) return;
    if (result > 0) queue.drop_sent(static_cast<std::size_t>(result));
    if (result >= 0 || result == -EINTR) continue;
    cannot_tell(peer, -result, true);
    queue.clear();
  }
}

Task<> ControlPlane::until_sent(Receivers receivers) {
  const auto has_any = [this, receivers] {
    for (Rank peer = 0; peer < membership_.size; ++peer)
      if (has_untold(peer) && (receivers == Receivers::all || is_linked(peer))) return true;
    return false;
  };
  while (has_any()) co_await has_drained_.wait();
}

Task<> ControlPlane::fail(Error own_fault) {
  co_await engine_.let_others_run();  // not within whatever said it
  throw Error(own_fault);
}

void ControlPlane::shutdown() noexcept {
  for (Socket& socket : membership_.control) socket.shutdown();
  for (Peer& peer : peers_) peer.caller.shutdown();
}

bool ControlChannel::send(Rank peer, ControlMessage message) noexcept {
  message.group = number_;
  return plane_.send(ranks_[peer], message);
}

bool ControlChannel::send_directly(Rank peer, ControlMessage message) noexcept {
  message.group = number_;
  return plane_.send_directly(ranks_[peer], message);
}

void ControlChannel::tell_neighbours(ControlMessage message) noexcept {
  if (is_passed_on())
    plane_.tell_neighbours(message);
  else
    broadcast(message);
}

void ControlChannel::broadcast(ControlMessage message) noexcept {
  if (is_passed_on()) return plane_.tell_all(message);
  for (Rank peer = 0; peer < ranks_.size(); ++peer)
    if (peer != own_) send(peer, message);
}

}  // namespace cohort
