// SPDX-License-Identifier: Apache-2.0
// How a Matching moves what lies in memory that it reaches.
#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/collectives/p2p/matching.h>
#include <cohort/engine/system/peer_memory.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/host/touch.h>

#include <algorithm>

namespace cohort {

/// At the receiver: a message that both ends copy, until its memory may be its owner's again.
class Matching::SharedCopy : cohort::Immovable {
 public:
  SharedCopy(Peer& peer, host::PartsCell& cell, std::uint32_t number) noexcept
      : peer_(peer),
        cell_(cell),
        number_(number),
        copied_before_(cell.copied.load(std::memory_order_acquire)) {
    peer_.is_copying_in = true;
    CooperativeCopy::begin(cell_.taken, number_);
  }
  ~SharedCopy() {
    CooperativeCopy::end(cell_.taken, number_);
    peer_.is_copying_in = false;
  }
  [[nodiscard]] CooperativeCopy parts(std::size_t bytes) const noexcept {
    return {bytes, cell_.taken, number_};
  }
  /// What the sender's counter comes to when all parts are there of which it has taken so many.
  [[nodiscard]] std::uint32_t copied_with(std::uint32_t by_sender) const noexcept {
    return copied_before_ + by_sender;
  }

 private:
  Peer& peer_;
  host::PartsCell& cell_;
  const std::uint32_t number_;
  const std::uint32_t copied_before_;
};

/// Where stores reach what it goes to, and a core is free for the sender: one message at a time in each
/// direction. Then the packet asks for it.
bool Matching::may_share(const Incoming& incoming, Packet& packet) const noexcept {
  const Peer& peer = peers_[incoming.from];
  const bool has_core = !use_.engine.is_oversubscribed() && !use_.membership.shares_engine(incoming.from);
  if (incoming.bytes < tuning::messages::kCopyTogetherFrom || peer.is_copying_in || !has_core) return false;
  packet = {.kind = Packet::Kind::copy_too, .id = incoming.offer.id, .bytes = incoming.bytes};
  peer.channel->locate(packet, incoming.request.data);
  return packet.where != Packet::Where::peer_address;
}

/// Where both ends copy, each takes the next part while there are any.
Task<> Matching::copy_mapped(Incoming& incoming, const std::byte* from) {
  host::Touch touch;
  if (!touch.begin(*group_, incoming.from))
    co_await use_.engine.sleep_until(kNever);  // until the cause comes
  const std::size_t bytes = incoming.bytes;
  host::PartsCell& cell = group_->own().cooperative_copy(incoming.from);
  std::optional<SharedCopy> shared;
  CooperativeCopy parts(bytes);
  Packet packet;
  if (may_share(incoming, packet)) {
    shared.emplace(peers_[incoming.from], cell, packet.id);
    parts = shared->parts(bytes);
    reply(incoming.from, packet);
  }
  while (const std::optional<CooperativeCopy::Part> part = parts.next()) {
    copy_part(*part, incoming.request.data, from, bytes);
    if (use_.engine.is_turn_over()) co_await pause(touch);
  }
  if (shared) co_await group_->until(cell.copied, shared->copied_with(parts.count() - parts.taken()));
  if (!touch.end()) co_await use_.engine.sleep_until(kNever);
}

/// Of what this rank sends to itself, as long as that call is there.
Task<> Matching::copy_own(Incoming& incoming, const std::byte* from) {
  const Peer& own = peers_[incoming.from];
  for (std::size_t at = 0; at < incoming.bytes; at += tuning::messages::kMostPart) {
    if (!own.offered.contains(incoming.offer.id))
      co_await use_.engine.sleep_until(kNever);  // the cause comes
    const std::size_t part = std::min(tuning::messages::kMostPart, incoming.bytes - at);
    cohort::copy(incoming.request.data + at, from + at, part, Stores::cached);
    if (use_.engine.is_turn_over()) co_await use_.engine.let_others_run();
  }
}

/// Memory that the receiver gives back only when all parts that this rank has taken are there. One that has
/// withdrawn it has failed, or has everything and has failed later: what it has said of that is still to
/// come.
Task<> Matching::copy_too(Outgoing& outgoing) {
  const MessageRequest& request = outgoing.request;
  std::byte* const to = peers_[request.peer].channel->mapped(*std::exchange(outgoing.copy_too, {}));
  host::Touch touch;
  if (!touch.begin(*group_, request.peer)) co_return;
  host::PartsCell& cell = group_->segment(request.peer).cooperative_copy(use_.membership.rank);
  CooperativeCopy parts(request.bytes, cell.taken, outgoing.id);
  while (const std::optional<CooperativeCopy::Part> part = parts.next()) {
    copy_part(*part, to, request.data, request.bytes);
    if (!touch.may_go_on()) co_return;
    // Before others run here: the receiver may wait for it.
    cell.copied.fetch_add(1, std::memory_order_seq_cst);
    group_->notify(request.peer);
    if (!use_.engine.is_turn_over()) continue;
    co_await use_.engine.let_others_run();
    if (!touch.may_go_on()) co_return;
  }
}

/// Of a message of so many bytes.
void Matching::copy_part(const CooperativeCopy::Part& part, std::byte* to, const std::byte* from,
                         std::size_t bytes) const noexcept {
  const Stores stores = is_beyond_caches(bytes) ? Stores::streaming : Stores::cached;
  cohort::copy(to + part.at, from + part.at, part.bytes, stores);
}

/// Lets others run amid a touch, and goes on only while the peer's memory is there.
Task<> Matching::pause(const host::Touch& touch) {
  co_await use_.engine.let_others_run();
  if (!touch.may_go_on()) co_await use_.engine.sleep_until(kNever);  // until the cause comes
}

/// False, from then on, where the kernel does not allow it. A process that has ended may have left its number
/// to another one, whose memory this would be.
Task<bool> Matching::pull(Incoming& incoming) {
  host::Touch touch;
  if (!touch.begin(*group_, incoming.from))
    co_await use_.engine.sleep_until(kNever);  // until the cause comes
  const MessageRequest& request = incoming.request;
  const std::uint32_t process = use_.membership.peers[incoming.from].visible_process;
  for (std::size_t at = 0; at < incoming.bytes && may_pull_; at += tuning::messages::kMostPart) {
    const std::size_t part = std::min(tuning::messages::kMostPart, incoming.bytes - at);
    may_pull_ = read_peer_memory(process, request.data + at, incoming.offer.place + at, part) == 0;
    if (use_.engine.is_turn_over()) co_await pause(touch);
  }
  const bool has_ended = use_.has_process_ended(incoming.from);
  if (!touch.end() || has_ended) co_await use_.engine.sleep_until(kNever);
  co_return may_pull_;
}

}  // namespace cohort
