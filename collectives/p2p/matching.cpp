// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/p2p/matching.h>

#include <cohort/collectives/job/listen_for.h>
#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/system/peer_memory.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/host/touch.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

namespace cohort {
namespace {

static_assert(BulkChannel::kReasonTime > kQuestionTime, "hear_of_others() ends before its channel is missed");

}  // namespace

/// In its peer's lists, whatever ends it.
class Matching::OutgoingPlace : cohort::Immovable {
 public:
  OutgoingPlace(Peer& peer, Outgoing& outgoing, Flight& flight) noexcept
      : peer_(peer), outgoing_(outgoing), flight_(flight) {
    peer.unsent.push_back(outgoing);
  }
  ~OutgoingPlace() {
    outgoing_.unlink();
    flight_.is_known_to_peer = outgoing_.is_offered;
    flight_.is_known_here = outgoing_.is_wanted;
    if (!outgoing_.is_offered) return;
    peer_.offered.erase(outgoing_.id);
    // The receiver may ask for it yet, and would take what comes next for it.
    BulkChannel* const bulk = peer_.channel->bulk_for(outgoing_.request.bytes);
    if (bulk != nullptr && !outgoing_.is_over) bulk->shutdown();
    peer_.channel->give_back(outgoing_.request.memory());
  }

 private:
  Peer& peer_;
  Outgoing& outgoing_;
  Flight& flight_;
};

class Matching::IncomingPlace : cohort::Immovable {
 public:
  IncomingPlace(Matching& owner, Incoming& incoming, Flight& flight) noexcept
      : owner_(owner), incoming_(incoming), flight_(flight) {}
  ~IncomingPlace() {
    incoming_.unlink();
    if (PostedReceive* const posted = incoming_.request.posted) posted->end(incoming_.is_matched);
    flight_.is_known_to_peer = flight_.is_known_here = incoming_.is_matched;
    if (!incoming_.is_matched) return;
    Peer& peer = owner_.peers_[incoming_.from];
    for (auto& [id, wanted] : peer.coming)
      if (wanted == &incoming_) wanted = nullptr;  // its pieces go on coming
    for (Unexpected& message : peer.unexpected)
      if (message.wanted_by == &incoming_) message.wanted_by = nullptr;
    if (peer.taking != &incoming_) return;
    peer.taking = nullptr;
    peer.into = nullptr;  // the rest of it is still on its way
    owner_.use_.health.unless_out_of_memory([&peer] { peer.take_into_sink(); });
  }

 private:
  Matching& owner_;
  Incoming& incoming_;
  Flight& flight_;
};

Matching::Flight::Flight(Matching& matching, const MessageRequest& asked, CancelScope* around)
    : owner(matching), request(asked), start(matching.use_.engine.now()), scope(around) {
  owner.flights_.push_back(*this);
  if (owner.flight_count_++ == 0 && owner.group_ != nullptr) owner.group_->watch(owner);
  ++owner.flights_like(asked);
  const Duration timeout = asked.timeout > Duration::zero() ? asked.timeout : owner.use_.timeout;
  scope.set_deadline(owner.use_.engine, after(start, timeout));
}

Matching::Flight::~Flight() {
  unlink();
  if (--owner.flight_count_ == 0) static_cast<host::Watcher&>(owner).unlink();
  --owner.flights_like(request);
}

Matching::Matching(Use use)
    : use_(std::move(use)),
      no_memory_(Error(ErrorKind::ResourceLimit,
                       fmt::format("{} has no memory for the messages that come on '{}'; {}",
                                   use_.membership.self().describe(), use_.membership.name,
                                   advice_on(ErrorKind::ResourceLimit, use_.membership.self())))
                     .with_culprit(use_.membership.rank)),
      group_(use_.transports.group()),
      peers_(use_.membership.size),
      cache_bytes_(use_.engine.platform().last_level_cache_bytes()) {}

Matching::~Matching() {
  COHORT_ASSERT(flights_.empty(), "'{}' ended with {} messages under way", use_.membership.name,
                flight_count_);
  static_cast<host::Watcher&>(*this).unlink();
}

bool Matching::try_complete_now(MessageRequest& request) noexcept {
  if (use_.health.is_failed() || request.peer == MessageRequest::kAnybody) return false;
  if (request.is_synchronous || request.probe != MessageRequest::Probe::none || request.claim != 0)
    return false;
  if (++calls_since_look_ % tuning::messages::kCallsBetweenLooks == 0 && use_.engine.is_turn_over())
    return false;
  return request.sends ? try_send_now(request) : try_receive_now(request);
}

bool Matching::try_send_now(const MessageRequest& request) noexcept {
  Peer& peer = peers_[request.peer];
  const bool is_next = peer.channel != nullptr && peer.unsent.empty() && peer.replies.empty();
  return is_next && send_small(peer, request);
}

/// The packet that is next, if it is the one and all of it has come.
bool Matching::try_receive_now(MessageRequest& request) noexcept {
  Peer& peer = peers_[request.peer];
  if (peer.channel == nullptr || !posted_.empty() || !peer.unexpected.empty() || peer.into != nullptr)
    return false;
  Packet packet;
  const bool has_come = peer.channel->peek(packet) || (peer.channel->spin() && peer.channel->peek(packet));
  if (!has_come || packet.kind != Packet::Kind::message) return false;
  if (!request.wants_tag(packet.tag) || !request.has_room_for(packet.bytes)) return false;
  if (!peer.channel->is_whole() || !peer.channel->take(request.data)) return false;
  request.tag = packet.tag;
  request.bytes = packet.bytes;
  if (request.posted != nullptr) request.posted->end(true);
  ++peer.heard;
  try {
    use_up(request.peer, packet.bytes);
  } catch (const std::bad_alloc&) {
    fail_without_memory();  // in what follows: this message is here
  }
  return true;
}

Task<Envelope> Matching::run(const MessageRequest& request) {
  const CallUnderWay under_way(use_.engine);
  CancelScope* around = co_await current_scope();
  if (around != nullptr) around->throw_if_cancelled();
  if (use_.health.is_failed()) throw Error(use_.health.cause());
  open_all_of(request);
  if (use_.health.is_failed()) throw Error(use_.health.cause());  // by what has been opened
  Flight flight(*this, request, around);
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (waits_for(flight, peer) && use_.health.is_gone(peer)) peer_left(peer);
  std::exception_ptr failure;
  Envelope envelope;
  try {
    Task<Envelope> moving = with_scope(flight.scope, begin(request, flight));
    envelope = co_await moving;
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) {
    // Not before: whoever was awaited later would overtake it.
    if (use_.engine.is_turn_over()) {
      CancelScope uncancelled;  // it has moved: nobody may be told otherwise
      Task<> waiting = with_scope(uncancelled, let_others_run());
      co_await waiting;
    }
    co_return envelope;
  }
  flight.failed = use_.engine.now();
  co_await hear_of_others(flight.request, failure);
  const Error cause = settle(flight, failure);
  if (use_.health.is_failed()) co_await use_.withdraw();
  throw Error(cause);
}

Task<> Matching::let_others_run() { co_await use_.engine.let_others_run(); }

Task<Envelope> Matching::begin(const MessageRequest& request, Flight& flight) {
  if (request.probe != MessageRequest::Probe::none) return look(request);
  return request.sends ? send(request, flight) : receive(request, flight);
}

/// At a deadline: an engine that stood still comes to it late, with what others have said unread, and the
/// other end may be silent. Collectives whose deadline this is, too, ask each other so long.
Task<> Matching::hear_of_others(const MessageRequest& request, const std::exception_ptr& failure) {
  const std::optional<Error> error = error_in(failure);
  if (!error || error->kind() != ErrorKind::DeadlineExceeded) co_return;
  CancelScope uncancelled;
  if (!use_.health.is_failed()) use_.health.ask_around();
  if (request.peer != MessageRequest::kAnybody && request.peer != use_.membership.rank)
    use_.health.ask_directly(request.peer);
  const auto is_known = [this] { return use_.health.is_failed(); };
  Task<> hearing = with_scope(uncancelled, listen_for(use_.engine, kQuestionTime, is_known));
  co_await hearing;
}

std::string Matching::describe(const MessageRequest& request) const {
  const std::string who =
      request.peer == MessageRequest::kAnybody ? "any rank" : use_.membership.peers[request.peer].describe();
  const std::string tag = request.takes_any_tag ? "any tag" : fmt::format("tag {}", request.tag);
  if (request.probe != MessageRequest::Probe::none)
    return fmt::format("probe for a message from {} with {}", who, tag);
  return fmt::format("{} of {}{} bytes {} {} with {}", request.sends ? "send" : "recv",
                     request.takes_less ? "up to " : "", request.bytes, request.sends ? "to" : "from", who,
                     tag);
}

std::optional<std::string> Matching::current_operation() {
  std::optional<std::string> first;
  flights_.for_each([&](const Flight& flight) {
    if (!first && !flight.failed) first = describe(flight.request);
  });
  return first;
}

std::optional<std::string> Matching::last_operation() {
  std::optional<std::string> operation = current_operation();
  flights_.for_each([&](const Flight& flight) {
    if (!operation) operation = describe(flight.request);
  });
  return operation;
}

std::string Matching::why_unanswered(const MessageRequest& request) const {
  constexpr std::string_view kNobody = "nobody called what belongs to it";
  constexpr std::string_view kAdvice = "look at what that rank does instead";
  if (request.peer == MessageRequest::kAnybody) return fmt::format("{}; {}", kNobody, kAdvice);
  const std::string where = use_.health.whereabouts_of(request.peer);
  if (where.empty()) return fmt::format("{}; {}", kNobody, kAdvice);
  const std::string to_this = fmt::format(" to {}", use_.membership.self().describe());
  const bool do_both_send =
      request.sends && where.starts_with("it is in send of") && where.find(to_this) != std::string::npos;
  const std::string advice =
      do_both_send ? fmt::format(
                         "where both ends send, one of them has to recv before it does, or both at the "
                         "same time, {}",
                         use_.wording.at_once)
                   : std::string(kAdvice);
  return fmt::format("{} (rank {}: {}); {}", kNobody, request.peer, where, advice);
}

Error Matching::settle(const Flight& flight, const std::exception_ptr& failure) noexcept {
  std::optional<Error> own;
  use_.health.unless_out_of_memory([&] { own = find_own_failure(flight, failure); });
  return own ? *own : use_.health.cause();
}

Error Matching::find_own_failure(const Flight& flight, const std::exception_ptr& failure) {
  Health& health = use_.health;
  if (health.is_failed()) return health.cause_of(failure);
  const MessageRequest& request = flight.request;
  const std::string what = fmt::format("{} by {} on '{}'", describe(request),
                                       use_.membership.self().describe(), use_.membership.name);
  Error own = as_error(failure);
  if (!error_in(failure)) own = Error(own.kind(), fmt::format("{} failed: {}", what, own.message()));
  if (own.kind() == ErrorKind::DeadlineExceeded) {
    const bool has_peer = request.peer != MessageRequest::kAnybody;
    const bool is_silent = has_peer && health.is_silent(request.peer);
    std::string why = why_unanswered(request);
    if (flight.is_known_here)
      why =
          is_silent
              ? "the other end has called it, too, but does not answer: it computes, or is stopped; find out "
                "which, and whether its host can be reached"
              : "the other end has called it, too, and its bytes take longer; look at how busy that "
                "rank and the network are";
    own = Error(
        ErrorKind::DeadlineExceeded,
        fmt::format("{} was not finished within {:.3f} s: {}, or give the call a longer deadline "
                    "({})",
                    what, std::chrono::duration<double>(*flight.failed - flight.start).count(), why,
                    request.timeout > Duration::zero() ? use_.wording.call_timeout : use_.wording.timeout));
    if (has_peer && (is_silent || !flight.is_known_here)) own = own.with_culprit(request.peer);
    health.fail(own);
  } else if (flight.is_known_to_peer) {
    health.fail(
        Error(ErrorKind::PeerAborted,
              fmt::format("{} gave up in a {}: {}", use_.membership.self().describe(), what, own.message()))
            .with_culprit(use_.membership.rank));
  }
  return own;
}

Task<Envelope> Matching::send(const MessageRequest& request, Flight& flight) {
  Peer& peer = peers_[request.peer];
  Outgoing outgoing(request);
  const OutgoingPlace place(peer, outgoing, flight);
  (void)advance(request.peer);
  BulkChannel* const bulk = peer.channel->bulk_for(request.bytes);
  while (!outgoing.is_over) {
    if (outgoing.copy_too)
      co_await copy_too(outgoing);
    else if (!outgoing.is_asked_for)
      co_await outgoing.news.wait();
    else if (bulk != nullptr)
      co_await move_out(outgoing, *bulk);
    else
      co_await push(outgoing);
  }
  co_return Envelope(request.peer, request.tag, request.bytes);
}

/// As many pieces as there is room for, then waits for more.
Task<> Matching::push(Outgoing& outgoing) {
  const MessageRequest& request = outgoing.request;
  Peer& peer = peers_[request.peer];
  (void)use_.engine.is_turn_over();  // from now on it is timed
  std::size_t next_look = outgoing.sent_bytes + tuning::messages::kMostPart;
  while (outgoing.sent_bytes < request.bytes) {
    const std::size_t bytes = std::min(peer.channel->most_piece(), request.bytes - outgoing.sent_bytes);
    const Packet piece{.kind = Packet::Kind::piece, .id = outgoing.id, .bytes = bytes};
    const bool has_room =
        peer.replies.empty() && peer.channel->try_send(piece, request.data + outgoing.sent_bytes);
    if (!has_room) {
      co_await outgoing.news.wait();
      co_return;
    }
    outgoing.sent_bytes += bytes;
    if (outgoing.sent_bytes < next_look) continue;
    if (use_.engine.is_turn_over()) {
      co_await use_.engine.let_others_run();
      (void)use_.engine.is_turn_over();
    }
    next_look = outgoing.sent_bytes + tuning::messages::kMostPart;
  }
  while (peer.channel->borrows_from(request.memory())) co_await outgoing.news.wait();
  if (peer.channel->has_dropped_a_piece()) co_await use_.engine.sleep_until(kNever);  // until the cause comes
  outgoing.is_over = true;
}

/// Both ends have the queue in the same order. Who leaves it early takes the channel with it: its bytes would
/// be taken for those of the next one.
template <class Message, class Move>
Task<> Matching::move_in_turn(IntrusiveList<Message>& queue, Message& message, BulkChannel& bulk, Move move) {
  try {
    while (&queue.front() != &message) co_await message.news.wait();
    co_await move();
  } catch (...) {
    bulk.shutdown();
    throw;
  }
  message.unlink();
  if (!queue.empty()) wake(queue.front().news);
}

Task<> Matching::move_out(Outgoing& outgoing, BulkChannel& bulk) {
  const std::span<const std::byte> data(outgoing.request.data, outgoing.request.bytes);
  const auto send = [&bulk, data] { return bulk.send(data); };
  co_await move_in_turn(peers_[outgoing.request.peer].moving_out, outgoing, bulk, send);
  outgoing.is_over = true;
}

Task<> Matching::move_in(Incoming& incoming, BulkChannel& bulk) {
  Peer& peer = peers_[incoming.from];
  const std::span<std::byte> data(incoming.request.data, incoming.bytes);
  const auto receive = [&bulk, data] { return bulk.receive(data); };
  peer.moving_in.push_back(incoming);
  reply(incoming.from, {.kind = Packet::Kind::send_it, .id = incoming.offer.id});
  co_await move_in_turn(peer.moving_in, incoming, bulk, receive);
}

Task<Envelope> Matching::receive(const MessageRequest& request, Flight& flight) {
  Incoming incoming(request);
  const IncomingPlace place(*this, incoming, flight);
  if (request.claim != 0) {
    match_claimed(incoming);
  } else if (!match_unexpected(incoming)) {
    posted_.push_back(incoming);
    if (request.posted != nullptr) request.posted->begin(incoming);
    advance_all_of(request);
  }
  while (!incoming.is_over && !incoming.is_offered) co_await incoming.news.wait();
  if (!incoming.is_over) co_await fetch(incoming);
  co_return Envelope(incoming.from, incoming.tag, incoming.bytes);
}

Task<> Matching::fetch(Incoming& incoming) {
  Peer& peer = peers_[incoming.from];
  const std::byte* const mapped = peer.channel->mapped(incoming.offer);
  bool is_here = incoming.offer.bytes == 0;
  if (!is_here && incoming.from == use_.membership.rank) {
    co_await copy_own(incoming, mapped);
    is_here = true;
  } else if (!is_here && mapped != nullptr) {
    co_await copy_mapped(incoming, mapped);
    is_here = true;
  } else if (!is_here && pulls(incoming.offer)) {
    const bool was_read = co_await pull(incoming);
    is_here = was_read;
  }
  if (is_here) {
    reply(incoming.from, {.kind = Packet::Kind::fetched, .id = incoming.offer.id});
    // The sender waits for it, and this rank may leave next.
    if (!peer.replies.empty()) peer.answering.push_back(incoming);
    while (incoming.is_linked()) co_await incoming.news.wait();
    co_return;
  }
  if (BulkChannel* const bulk = peer.channel->bulk_for(incoming.bytes)) {
    co_await move_in(incoming, *bulk);
    co_return;
  }
  incoming.arrived_bytes = 0;
  peer.coming[incoming.offer.id] = &incoming;
  reply(incoming.from, {.kind = Packet::Kind::send_it, .id = incoming.offer.id});
  while (!incoming.is_over) co_await incoming.news.wait();
}

}  // namespace cohort
