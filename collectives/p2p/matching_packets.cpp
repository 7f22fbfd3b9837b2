// SPDX-License-Identifier: Apache-2.0
// The packets of a Matching: what it says and hears.
#include <cohort/collectives/p2p/loopback_packets.h>
#include <cohort/collectives/p2p/matching.h>

#include <cohort/collectives/job/listen_for.h>
#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace cohort {
namespace {

constexpr std::size_t kOwedInARow = tuning::messages::kMostUnused / 4;
/// What a message counts beside its bytes.
constexpr std::size_t kMessageWeight = 64;
/// Messages of one sender that nobody wants: beyond is a program that runs away.
constexpr std::size_t kMostUnexpected = std::size_t{1} << 20;

/// Where packets without payload are "taken" to.
std::byte nowhere;

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  copy(to, from, bytes, Stores::streaming);
}

}  // namespace

bool Matching::send_small(Peer& peer, const MessageRequest& request) noexcept {
  const std::size_t weight = request.bytes + kMessageWeight;
  if (request.bytes > peer.channel->most_payload() ||
      peer.unused_bytes + weight > tuning::messages::kMostUnused)
    return false;
  const Packet packet{.kind = Packet::Kind::message, .tag = request.tag, .bytes = request.bytes};
  if (!peer.channel->try_send(packet, request.data)) return false;
  peer.unused_bytes += weight;
  return true;
}

void Matching::open(Rank rank) {
  Peer& peer = peers_[rank];
  if (peer.channel != nullptr) return;
  if (rank == use_.membership.rank) {
    peer.channel = std::make_unique<LoopbackPackets>(use_.engine, rank, *this, use_.services);
    return;
  }
  peer.channel = use_.transports.to(rank).open_packets(rank, *this, use_.services);
  if (peer.channel == nullptr)
    throw Error(ErrorKind::Unsupported,
                fmt::format("transport {} carries no messages: send() and recv() between rank {} and {} need "
                            "another one",
                            use_.transports.name_for(rank), use_.membership.rank,
                            use_.membership.peers[rank].describe()))
        .with_culprit(rank);
  if (use_.transports.capabilities(rank).maps_memory) mapped_.push_back(rank);
}

void Matching::open_all_of(const MessageRequest& request) {
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (peer == request.peer || request.peer == MessageRequest::kAnybody) open(peer);
}

void Matching::advance_all_of(const MessageRequest& request) noexcept {
  for (Rank peer = 0; peer < peers_.size(); ++peer)
    if (peer == request.peer || request.peer == MessageRequest::kAnybody) (void)advance(peer);
}

PacketHandler::Waiting Matching::waiting_for(Rank from) const noexcept {
  if (peers_[from].flights != 0) return Waiting::for_this_rank;
  return flights_with_anybody_ != 0 ? Waiting::for_anybody : Waiting::nobody;
}

bool Matching::advance(Rank rank) noexcept {
  if (peers_[rank].channel == nullptr) return false;
  try {
    const bool has_read = drain(rank);
    const bool has_sent = flush(rank);
    return has_read || has_sent;
  } catch (const std::bad_alloc&) {
    fail_without_memory();
    return true;
  }
}

/// What was being taken is left as it is: nothing more is read once the communicator has failed.
void Matching::fail_without_memory() noexcept { use_.health.fail(no_memory_); }

/// Whose last piece may have left, first: what is read next may close the channel.
void Matching::room_came(Rank to) noexcept {
  for (const auto& [id, outgoing] : peers_[to].offered)
    if (outgoing->is_asked_for && outgoing->sent_bytes == outgoing->request.bytes) wake(outgoing->news);
  (void)advance(to);
}

bool Matching::poll() noexcept {
  bool progress = false;
  for (const Rank rank : mapped_) progress |= advance(rank);
  return progress;
}

bool Matching::drain(Rank from) {
  Peer& peer = peers_[from];
  bool progress = false;
  std::size_t weight = 0;
  Packet packet;
  while (!use_.health.is_failed() && peer.channel->peek(packet)) {
    if (peer.into == nullptr) aim(from, packet);
    if (peer.into == nullptr) return progress;
    const std::size_t bytes = peer.taking != nullptr ? peer.taking->bytes : packet.bytes;
    if (!peer.channel->take_by(is_beyond_caches(bytes) ? copy_past_caches : copy_bytes, peer.into))
      return progress;
    finish(from, packet);
    ++peer.heard;
    peer.into = nullptr;
    peer.taking = nullptr;
    progress = true;
    weight += tuning::messages::kPacketCost + packet.payload_bytes();
    if (weight < tuning::messages::kReadBetweenLooks) continue;
    if (use_.engine.is_turn_over()) break;
    weight = 0;
  }
  return progress;
}

bool Matching::flush(Rank to) {
  Peer& peer = peers_[to];
  bool progress = false;
  while (!peer.replies.empty() && peer.channel->try_send(peer.replies.front(), nullptr)) {
    peer.replies.pop_front();
    progress = true;
  }
  if (!peer.replies.empty()) return progress;
  while (Incoming* const incoming = peer.answering.pop_front()) wake(incoming->news);
  while (!peer.unsent.empty() && announce(peer, peer.unsent.front())) {
    peer.unsent.pop_front();
    progress = true;
  }
  if (peer.offered.empty() || !peer.channel->has_room()) return progress;
  for (const auto& [id, outgoing] : peer.offered)
    if (outgoing->is_asked_for && !outgoing->is_over) wake(outgoing->news);
  return progress;
}

bool Matching::announce(Peer& peer, Outgoing& outgoing) {
  const MessageRequest& request = outgoing.request;
  if (!request.is_synchronous && send_small(peer, request)) {
    outgoing.is_over = true;
    wake(outgoing.news);
    return true;
  }
  Packet offer{.kind = Packet::Kind::offer, .tag = request.tag, .id = peer.next_id, .bytes = request.bytes};
  peer.channel->locate(offer, request.data);
  if (!peer.channel->try_send(offer, nullptr)) return false;
  outgoing.id = peer.next_id++;
  outgoing.is_offered = true;
  peer.offered[outgoing.id] = &outgoing;
  return true;
}

/// Finds out where the payload of the next packet goes; nowhere, if it makes no sense.
void Matching::aim(Rank from, const Packet& packet) {
  Peer& peer = peers_[from];
  if (packet.kind == Packet::Kind::message) {
    if (Incoming* const incoming = take_posted(from, packet)) {
      peer.taking = incoming;
      if (!use_.health.is_failed()) peer.into = packet.bytes == 0 ? &nowhere : incoming->request.data;
      return;
    }
    Unexpected& message = peer.unexpected.emplace_back();
    message.packet = packet;
    message.order = ++arrivals_;
    message.payload.resize(packet.bytes + 1);
    peer.into = message.payload.data();
    return;
  }
  peer.into = &nowhere;
  if (packet.kind != Packet::Kind::piece) return;
  const auto found = peer.coming.find(packet.id);
  if (found != peer.coming.end() && found->second == nullptr) {
    peer.take_into_sink();
    return;
  }
  if (found == peer.coming.end() || packet.bytes > found->second->bytes - found->second->arrived_bytes) {
    peer.into = nullptr;
    fail_nonsense(from, "a piece of a message that is not expected");
    return;
  }
  peer.taking = found->second;
  peer.into = found->second->request.data + found->second->arrived_bytes;
}

void Matching::finish(Rank from, const Packet& packet) {
  switch (packet.kind) {
    case Packet::Kind::message: finish_message(from, packet); return;
    case Packet::Kind::piece: finish_piece(from, packet); return;
    case Packet::Kind::offer: take_offer(from, packet); return;
    case Packet::Kind::fetched:
    case Packet::Kind::send_it:
    case Packet::Kind::copy_too: take_answer(from, packet); return;
    case Packet::Kind::credit:
      peers_[from].unused_bytes -= std::min<std::uint64_t>(peers_[from].unused_bytes, packet.bytes);
      return;
  }
}

void Matching::finish_message(Rank from, const Packet& packet) {
  Peer& peer = peers_[from];
  if (peer.taking != nullptr) {
    use_up(from, packet.bytes);
    peer.taking->is_over = true;
    wake(peer.taking->news);
    return;
  }
  if (!peer.sink.empty() && peer.into == peer.sink.data()) return use_up(from, packet.bytes);
  Unexpected& message = peer.unexpected.back();
  message.is_whole = true;
  if (message.wanted_by == nullptr) {
    if (peer.unexpected.size() > kMostUnexpected) fail_nonsense(from, "more messages than anybody receives");
    return wake_lookers();
  }
  deliver(*message.wanted_by, message);
  peer.unexpected.pop_back();
}

void Matching::finish_piece(Rank from, const Packet& packet) {
  Incoming* const incoming = peers_[from].taking;
  if (incoming == nullptr) return;  // nobody wants it any more
  incoming->arrived_bytes += packet.bytes;
  if (incoming->arrived_bytes != incoming->bytes) return;
  peers_[from].coming.erase(packet.id);
  incoming->is_over = true;
  wake(incoming->news);
}

void Matching::take_offer(Rank from, const Packet& packet) {
  if (Incoming* const incoming = take_posted(from, packet)) {
    if (use_.health.is_failed()) return;  // of another size: its wait ends with the cause
    incoming->offer = packet;
    incoming->is_offered = true;
    wake(incoming->news);
    return;
  }
  Peer& peer = peers_[from];
  Unexpected& message = peer.unexpected.emplace_back();
  message.packet = packet;
  message.order = ++arrivals_;
  message.is_whole = true;
  if (peer.unexpected.size() > kMostUnexpected) fail_nonsense(from, "more messages than anybody receives");
  wake_lookers();
}

void Matching::take_answer(Rank from, const Packet& packet) {
  Peer& peer = peers_[from];
  const auto found = peer.offered.find(packet.id);
  if (found == peer.offered.end()) return;  // given up, which the peer does not know yet
  Outgoing& outgoing = *found->second;
  outgoing.is_wanted = true;
  if (packet.kind == Packet::Kind::copy_too) {
    const bool is_right = packet.bytes == outgoing.request.bytes && peer.channel->mapped(packet) != nullptr;
    if (!is_right) return fail_nonsense(from, "a place for a message that is none");
    outgoing.copy_too = packet;
  } else if (packet.kind == Packet::Kind::fetched) {
    outgoing.is_over = true;
  } else if (!std::exchange(outgoing.is_asked_for, true) && peer.channel->bulk_for(outgoing.request.bytes)) {
    peer.moving_out.push_back(outgoing);
  }
  wake(outgoing.news);
}

/// The first recv() that wants it: no longer posted then.
Matching::Incoming* Matching::take_posted(Rank from, const Packet& packet) {
  Incoming* found = nullptr;
  posted_.for_each([&](Incoming& incoming) {
    const MessageRequest& request = incoming.request;
    const bool wants =
        request.wants_tag(packet.tag) && (request.peer == from || request.peer == MessageRequest::kAnybody);
    if (found == nullptr && wants) found = &incoming;
  });
  if (found == nullptr) return nullptr;
  found->unlink();
  match(*found, from, packet);
  return found;
}

/// Both ends have to agree about the size; who has sent already hears of it all the same.
void Matching::match(Incoming& incoming, Rank from, const Packet& packet) {
  incoming.from = from;
  incoming.is_matched = true;
  if (incoming.request.posted != nullptr) incoming.request.posted->end(true);
  if (incoming.request.has_room_for(packet.bytes)) {
    incoming.tag = packet.tag;
    incoming.bytes = packet.bytes;
    return;
  }
  if (incoming.request.posted != nullptr) incoming.request.posted->refuse();
  const auto& peers = use_.membership.peers;
  use_.health.fail(
      Error(ErrorKind::Mismatch,
            fmt::format("{} sends {} bytes with tag {} to {}, which receives {}{} bytes there, on '{}'; {}",
                        peers[from].describe(), packet.bytes, packet.tag, use_.membership.self().describe(),
                        incoming.request.takes_less ? "up to " : "", incoming.request.bytes,
                        use_.membership.name,
                        incoming.request.takes_less ? "give the recv a buffer that holds it"
                                                    : "both ends have to give the same size"))
          .with_culprit(from));
}

/// What came first of what is wanted, from whomever. A probe does not see that of which a part has come:
/// another rank's may be there.
std::optional<Matching::Found> Matching::find_unexpected(const MessageRequest& request) {
  const bool is_probe = request.probe != MessageRequest::Probe::none;
  std::optional<Found> first;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    if (request.peer != rank && request.peer != MessageRequest::kAnybody) continue;
    std::deque<Unexpected>& unexpected = peers_[rank].unexpected;
    const auto found = std::ranges::find_if(unexpected, [&](const Unexpected& message) {
      return request.wants_tag(message.packet.tag) && message.wanted_by == nullptr &&
             (message.is_whole || !is_probe);
    });
    if (found == unexpected.end() || (first && found->order >= first->message->order)) continue;
    first = {rank, found};
  }
  return first;
}

bool Matching::match_unexpected(Incoming& incoming) {
  const std::optional<Found> first = find_unexpected(incoming.request);
  if (!first) return false;
  Unexpected& message = *first->message;
  match(incoming, first->from, message.packet);
  if (use_.health.is_failed()) return true;
  if (!message.is_whole) {
    message.wanted_by = &incoming;
    return true;
  }
  deliver(incoming, message);
  peers_[first->from].unexpected.erase(first->message);
  return true;
}

/// What is there as a whole: an offer is the receiver's to fetch.
void Matching::deliver(Incoming& incoming, Unexpected& message) {
  if (message.packet.kind == Packet::Kind::offer) {
    incoming.offer = message.packet;
    incoming.is_offered = true;
    return;
  }
  if (message.packet.bytes != 0)
    copy_bytes(incoming.request.data, message.payload.data(), message.packet.bytes);
  use_up(incoming.from, message.packet.bytes);
  incoming.is_over = true;
  wake(incoming.news);
}

void Matching::reply(Rank to, const Packet& packet) {
  peers_[to].replies.push_back(packet);
  (void)flush(to);
}

void Matching::use_up(Rank from, std::size_t bytes) {
  Peer& peer = peers_[from];
  peer.owed_bytes += bytes + kMessageWeight;
  if (peer.owed_bytes < kOwedInARow || std::exchange(peer.is_being_told, true)) return;
  use_.services.spawn(pay(from));
}

/// Whoever has left needs no credit, and its kernel would drop what it still holds for this rank. A goodbye
/// that is here already is read in the turns that go by.
Task<> Matching::pay(Rank to) {
  constexpr int kTurns = 2;
  for (int turn = 0; turn < kTurns; ++turn) co_await use_.engine.sleep_for(Duration::zero());
  Peer& peer = peers_[to];
  peer.is_being_told = false;
  const std::size_t owed = std::exchange(peer.owed_bytes, 0);
  if (!use_.health.is_gone(to)) reply(to, {.kind = Packet::Kind::credit, .bytes = owed});
}

void Matching::fail_nonsense(Rank from, std::string_view what) {
  use_.health.fail(Error(ErrorKind::ProtocolError,
                         fmt::format("{} sends {} on '{}'", use_.membership.peers[from].describe(), what,
                                     use_.membership.name))
                       .with_culprit(from));
}

void Matching::fail(const Error& cause) noexcept {
  flights_.for_each([&](Flight& flight) { flight.scope.cancel(cause); });
}

void Matching::peer_left(Rank peer) {
  if (!flights_.empty()) use_.services.spawn(fail_if_missed(peer));
}

bool Matching::waits_for(const Flight& flight, Rank peer) const noexcept {
  if (flight.failed) return false;
  if (flight.request.peer == peer) return true;
  if (flight.request.peer != MessageRequest::kAnybody) return false;
  for (Rank rank = 0; rank < peers_.size(); ++rank)
    if (rank != use_.membership.rank && !use_.health.is_gone(rank)) return false;
  return use_.health.has_left_last(peer);
}

std::uint64_t Matching::last_words() const noexcept {
  std::uint64_t packets = 0;
  for (Rank rank = 0; rank < peers_.size(); ++rank)
    if (rank != use_.membership.rank && use_.health.is_gone(rank)) packets += peers_[rank].heard;
  return packets;
}

/// What a rank that left has said on another connection comes for as long as it goes on coming.
Task<> Matching::fail_if_missed(Rank peer) {
  std::uint64_t heard = last_words();
  for (Duration quiet{}; quiet < kNewsTime; quiet += kLookInterval) {
    co_await use_.engine.sleep_for(kLookInterval);
    const std::uint64_t now = last_words();
    if (std::exchange(heard, now) != now) quiet = Duration::zero();
  }
  const MessageRequest* missed = nullptr;
  flights_.for_each([&](Flight& flight) {
    if (missed == nullptr && waits_for(flight, peer)) missed = &flight.request;
  });
  if (missed == nullptr || use_.health.is_failed()) co_return;
  for (Rank rank = 0; rank < peers_.size(); ++rank) {
    const bool is_waited_for = missed->peer == rank || missed->peer == MessageRequest::kAnybody;
    const PacketChannel* const channel = peers_[rank].channel.get();
    if (!is_waited_for || channel == nullptr || !channel->has_lost_words()) continue;
    use_.health.fail(use_.health.link_fault(rank, "messages that it had sent are lost"));
    co_return;
  }
  use_.health.fail(
      Error(ErrorKind::PeerAborted,
            fmt::format("{} left '{}' while {} waits to {} it with tag {}; every send needs its recv",
                        use_.membership.peers[peer].describe(), use_.membership.name,
                        use_.membership.self().describe(), missed->sends ? "send to" : "receive from",
                        missed->tag))
          .with_culprit(peer));
}

}  // namespace cohort
