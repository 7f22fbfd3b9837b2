// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other where only neighbours are connected from the start.
#include <cohort/net/control_plane.h>

#include <cohort/engine/failure.h>
#include <cohort/engine/log.h>
#include <cohort/net/data_connection.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>
#include <utility>

namespace cohort {
namespace {

/// After which hellos go by all ways: whoever is on the way along the tree is stopped, or not there yet.
constexpr Duration kTreePatience = std::chrono::seconds(5);
/// A goodbye that is passed on may come later than a refusal of who said it.
constexpr Duration kGoodbyeTime = std::chrono::milliseconds(250);
/// The end of a connection to whoever is no neighbour may come before the cause that it has said last. Its
/// neighbours hear that first, and pass it on, as they do a death.
constexpr Duration kLastWordTime = std::chrono::seconds(3);
/// Where all leave at once, nobody needs another way any more.
constexpr Duration kBridgeTime = std::chrono::milliseconds(250);

}  // namespace

// Hellos.

Task<> ControlPlane::exchange_passed_hellos(const HelloFor& hello_for) {
  are_neighbours_met_ = true;
  const std::vector<Held> held = std::exchange(held_, {});
  for (const Held& word : held) pass_on(word.from, word.message);
  own_hello_ = hello_for(membership_.rank).message;
  own_hello_.origin = membership_.rank;
  pass_on(membership_.rank, own_hello_);
  services_->spawn(say_hello_by_all_ways());
  for (Rank peer = 0; peer < membership_.size; ++peer)
    while (peer != membership_.rank && !peers_[peer].said_hello) co_await has_hello_.wait();
  co_await until_sent();  // whoever computes next passes nothing on
}

Task<> ControlPlane::say_hello_by_all_ways() {
  co_await engine_.sleep_for(kTreePatience);
  if (!awaited()) co_return;  // whom this rank has heard has heard it: the tree has one way between them
  own_hello_.number = 1;
  pass_on(membership_.rank, own_hello_);
}

void ControlPlane::take_passed_hello(const ControlMessage& message) noexcept {
  Peer& origin = peers_[message.origin];
  if (origin.said_hello || hellos_ == nullptr || membership_.is_neighbour(message.origin)) return;
  origin.said_hello = origin.is_taken = origin.is_greeted = true;
  try {
    hellos_->taken(message.origin, message, {});
  } catch (...) {
    hellos_->failures.note_words(std::current_exception());
  }
  if (has_hello_.untaken_posts() == 0) has_hello_.post();
}

// What is passed on.

/// It is passed on before this rank does anything about it, such as leave.
void ControlPlane::take_passed(Rank from, const ControlMessage& message) {
  if (!relay_.is_sound(message) || !relay_.is_news(message)) return;
  pass_on(from, message);
  if (message.type == ControlMessage::Type::revoke && !passed_cause_) passed_cause_ = message;
  if (message.type == ControlMessage::Type::hello)
    take_passed_hello(message);
  else if (message.to == ControlMessage::kNobody || message.to == membership_.rank)
    take(message.origin, message);
}

/// Whoever waits for a hello takes nothing else than why there is none.
void ControlPlane::pass_on(Rank from, const ControlMessage& message) {
  if (!are_neighbours_met_ && message.type != ControlMessage::Type::revoke) {
    held_.push_back({from, message});
    return;
  }
  for (const Rank peer : relay_.ways(message))
    if (peer != from && peer != message.origin) send_directly(peer, message);
}

bool ControlPlane::send(Rank peer, const ControlMessage& message) noexcept {
  if (message.group != 0 || membership_.is_neighbour(peer)) return send_directly(peer, message);
  if (peers_[peer].departed || !are_neighbours_met_) return false;
  const ControlMessage own = relay_.sign(message, peer);
  for (const Rank way : relay_.ways(own)) send_directly(way, own);
  return true;
}

/// Last words go directly to those, too, that would see the end of a connection: behind the cause that this
/// rank has heard, which comes to them by several steps. That a host is lost shows whether theirs answer:
/// said apart from what is passed on, which keeps its order.
void ControlPlane::tell_all(const ControlMessage& message) noexcept {
  if (!is_sparse()) {
    tell_neighbours(message);
    return;
  }
  const ControlMessage own = relay_.sign(message);
  const std::span<const Rank> ways = relay_.ways(own);
  for (const Rank way : ways) send_directly(way, own);
  const bool is_last_word = message.is_last_word();
  if (!is_last_word && message.type != ControlMessage::Type::lost) return;
  for (Rank peer = 0; peer < membership_.size; ++peer) {
    if (std::ranges::find(ways, peer) != ways.end()) continue;
    if (is_last_word && passed_cause_) tell_linked(peer, *passed_cause_);
    tell_linked(peer, is_last_word ? own : message);
  }
}

void ControlPlane::tell_linked(Rank peer, const ControlMessage& message) noexcept {
  if (is_linked(peer))
    send_directly(peer, message);
  else if (message.is_last_word() && peers_[peer].caller.is_open())
    (void)peers_[peer].caller.try_send(std::as_bytes(std::span(&message, 1)));
}

void ControlPlane::tell_neighbours(const ControlMessage& message) noexcept {
  for (Rank peer = 0; peer < membership_.size; ++peer)
    if (peer != membership_.rank && membership_.is_neighbour(peer)) send_directly(peer, message);
}

// Connections that are made when they are needed. Each is its maker's, who speaks on it.

void ControlPlane::reach(Rank peer) noexcept {
  Peer& state = peers_[peer];
  if (services_ == nullptr || membership_.is_neighbour(peer) || peer == membership_.rank) return;
  if (state.has_ended || state.is_called || membership_.control[peer].is_open()) return;
  state.is_called = true;
  try {
    services_->spawn(call(peer));
  } catch (const std::bad_alloc&) {
    state.is_called = false;
    cannot_tell(peer, ENOMEM, false);
  }
}

Task<> ControlPlane::call(Rank peer) {
  Socket& socket = membership_.control[peer];
  std::optional<Error> own_fault;
  bool has_ended = true;
  bool is_out_of_reach = false;
  try {
    Socket made = co_await connect_control(engine_, membership_, peer);
    made.set_host_timeout(membership_.host_timeout);
    socket = std::move(made);
    if (peers_[peer].has_queued.untaken_posts() == 0) peers_[peer].has_queued.post();
    services_->spawn(tell(peer));
    const bool is_over = co_await hear_until_end(peer, socket);
    has_ended = is_over;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Cancelled) co_return;
    if (is_own_fault(error.kind())) own_fault = error;
    is_out_of_reach = error.kind() == ErrorKind::LinkFault;
    log(LogLevel::debug, "control connection to rank {}: {}", peer, error.message());
  }
  if (own_fault) {
    peers_[peer].is_called = false;
    throw Error(*own_fault);
  }
  if (!has_ended) co_return;
  peers_[peer].has_refused = !socket.is_open() && !is_out_of_reach;
  co_await wait_for_last_words(peer);
  end(peer);
}

void ControlPlane::take_call(Rank peer, Socket socket) {
  Peer& state = peers_[peer];
  const bool is_wanted = services_ != nullptr && is_sparse() && !membership_.is_neighbour(peer);
  if (!is_wanted || state.has_ended) {
    log(LogLevel::debug, "a control connection of {} was closed", membership_.peers[peer].describe());
    return;
  }
  socket.set_host_timeout(membership_.host_timeout);
  state.next_caller = std::move(socket);
  if (state.caller.is_open())
    state.caller.shutdown();
  else
    services_->spawn(listen_to_caller(peer));
}

/// A second connection takes the place of one whose end its maker has seen before this rank.
Task<> ControlPlane::listen_to_caller(Rank peer) {
  Peer& state = peers_[peer];
  while (state.next_caller.is_open()) {
    state.caller = std::exchange(state.next_caller, Socket());
    const bool has_ended = co_await hear_until_end(peer, state.caller);
    if (!has_ended) co_return;
    if (!state.next_caller.is_open()) co_await wait_for_last_words(peer);
  }
  end(peer);
}

Task<> ControlPlane::wait_for_last_words(Rank peer) {
  const Duration grace = peers_[peer].has_refused ? kGoodbyeTime : kLastWordTime;
  if (!peers_[peer].departed) co_await engine_.sleep_for(grace);
}

// Who leaves must not part those who stay.

std::optional<Rank> ControlPlane::next_living(bool is_upwards) const noexcept {
  const Rank size = membership_.size;
  for (Rank distance = 1; distance < size; ++distance) {
    const Rank peer = (membership_.rank + (is_upwards ? distance : size - distance)) % size;
    if (!peers_[peer].departed && !peers_[peer].has_ended) return peer;
  }
  return std::nullopt;
}

/// Each is connected with the next one, up and down, who has not left: so there is a way between all.
Task<> ControlPlane::bridge_gaps() {
  for (;;) {
    co_await has_departed_.wait();
    co_await engine_.sleep_for(kBridgeTime);
    for (const bool is_upwards : {true, false}) {
      const std::optional<Rank> next = next_living(is_upwards);
      if (!next || membership_.is_neighbour(*next)) continue;
      relay_.add_way(*next);
      reach(*next);
    }
  }
}

}  // namespace cohort
