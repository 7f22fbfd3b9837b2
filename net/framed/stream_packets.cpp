// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/stream_packets.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/protocol_error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <new>
#include <optional>

namespace cohort::framed {
namespace {

constexpr std::uint32_t kPacketsMagic = 0x4c435443;  // "CTCL"
constexpr std::size_t kHeaderBytes = 32;
using Waiting = PacketHandler::Waiting;
using Header = std::array<std::byte, kHeaderBytes>;
/// Should the clock stand still.
constexpr unsigned kMostLooks = 1000;
/// Between looks at whether the peer's host has all.
constexpr Duration kFirstPause = std::chrono::microseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(2);

template <std::unsigned_integral T>
void put(Header& header, std::size_t at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i) header[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
T get(const std::byte* header, std::size_t at) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(header[at + i]) << (8 * i)));
  return value;
}

/// Little-endian: magic 4, kind 1, zero 3, tag 4, id 4, bytes 8, zero 8. Where an offer's bytes lie means
/// nothing to another host.
Header encode(const Packet& packet) noexcept {
  Header header{};
  put(header, 0, kPacketsMagic);
  put(header, 4, static_cast<std::uint8_t>(packet.kind));
  put(header, 8, static_cast<std::uint32_t>(packet.tag));
  put(header, 12, packet.id);
  put(header, 16, packet.bytes);
  return header;
}

bool decode(const std::byte* header, Packet& packet) noexcept {
  const auto kind = get<std::uint8_t>(header, 4);
  packet = {.kind = static_cast<Packet::Kind>(kind),
            .tag = static_cast<std::int32_t>(get<std::uint32_t>(header, 8)),
            .id = get<std::uint32_t>(header, 12),
            .bytes = get<std::uint64_t>(header, 16)};
  const bool is_kind = kind >= 1 && kind <= static_cast<std::uint8_t>(Packet::Kind::credit);
  return is_kind && get<std::uint32_t>(header, 0) == kPacketsMagic;
}

}  // namespace

StreamPackets::StreamPackets(const Use& use, Open call, Open wait_for_call, std::unique_ptr<BulkStream> bulk)
    : use_(use), call_(std::move(call)), bulk_(std::move(bulk)), staging_(tuning::sockets::kPacketsAtOnce) {
  use_.engine.add_source(*this);
  use_.services.spawn(serve(serve_called(std::move(wait_for_call))));
}

StreamPackets::~StreamPackets() {
  watch_by(Watch::kernel);
  unlink();
}

void StreamPackets::shutdown() noexcept {
  if (!is_closed_) drop_unread();
  close_packets();
  if (bulk_) bulk_->shutdown();
}

void StreamPackets::drop_unread() noexcept {
  constexpr unsigned kMostReceptions = 100;
  std::array<std::byte, tuning::sockets::kPacketsAtOnce> unread;
  for (ByteStream* const stream : {own_call_.get(), peers_call_.get()}) {
    if (stream == nullptr || !stream->goes_both_ways()) continue;
    for (unsigned i = 0; i < kMostReceptions && stream->try_receive_some(unread) > 0; ++i) {
    }
  }
}

void StreamPackets::close_packets() noexcept {
  is_closed_ = true;
  watch_by(Watch::kernel);
  drop_borrowed();
  if (own_call_) own_call_->shutdown();
  if (peers_call_) peers_call_->shutdown();
  if (work_.untaken_posts() == 0) work_.post();
  if (receiving_.untaken_posts() == 0) receiving_.post();
  wake_waiter();
}

Task<> StreamPackets::until_sent() {
  while (!is_closed_ && is_opened_ && (!out_ || !is_all_sent())) {
    is_waited_for_ = true;
    co_await sent_.wait();
  }
  if (!is_closed_ && !is_out_over_ && out_) co_await out_->until_sent();
  const auto is_on_its_way = [this] { return !is_closed_ && !is_out_over_ && out_ && !out_->is_taken(); };
  // Nothing tells when: it is looked at.
  for (Duration pause = kFirstPause; is_on_its_way(); pause = std::min(2 * pause, kLongestPause))
    co_await use_.engine.sleep_for(pause);
  if (bulk_) co_await bulk_->until_sent();
}

/// Whoever waits in until_sent() looks again.
void StreamPackets::wake_waiter() noexcept {
  if (std::exchange(is_waited_for_, false) && sent_.untaken_posts() == 0) sent_.post();
}

/// What is moved in bulk goes on: a peer that has left has moved all of it, and only this end is left.
void StreamPackets::fail(const Error& error) noexcept {
  if (is_closed_) return;
  close_packets();
  use_.host.link_failed(use_.peer, blamed_on(error, use_.own, use_.peer));
}

void StreamPackets::fail_sending(const Error& error) noexcept {
  if (is_closed_ || std::exchange(is_out_over_, true)) return;
  if (!out_->goes_both_ways()) out_->shutdown();
  kept_.clear();
  drop_borrowed();
  wake_waiter();
  use_.host.link_failed(use_.peer, blamed_on(error, use_.own, use_.peer));
}

void StreamPackets::fail_sending_by(int result) noexcept {
  fail_sending(error_unless_out_of_memory(
      [&] { return out_->failure(-result, fmt::format("sending a message to rank {}", use_.peer)); }));
}

Task<> StreamPackets::serve(Task<> one) {
  const CancelScope* const scope = co_await current_scope();
  try {
    co_await one;
  } catch (const Error& error) {
    if (scope == nullptr || !scope->is_cancelled()) fail(error);
  } catch (...) {
    fail(as_error(std::current_exception()));
  }
}

bool StreamPackets::try_send(const Packet& packet, const std::byte* payload) noexcept {
  try {
    return send_or_keep(packet, payload);
  } catch (const std::bad_alloc&) {
    fail(out_of_memory());
    return false;
  }
}

bool StreamPackets::send_or_keep(const Packet& packet, const std::byte* payload) {
  if (is_closed_) return false;
  if (!std::exchange(is_opened_, true)) use_.services.spawn(serve(serve_calling(call_)));
  if (!out_ || is_out_over_ || !is_all_sent()) return false;
  const Header header = encode(packet);
  const std::span<const std::byte> body(payload, packet.payload_bytes());
  COHORT_ASSERT(body.size() <= most_payload_of(packet), "a packet of {} bytes", body.size());
  const int result = out_->try_send_some(header, body);
  const std::size_t sent = result > 0 ? static_cast<std::size_t>(result) : 0;
  if (sent == header.size() + body.size()) return true;
  kept_.assign(header.begin(), header.end());
  kept_sent_ = 0;
  borrowed_ = body;
  drop_sent(sent);
  if (packet.kind != Packet::Kind::piece) give_back(body);
  if (work_.untaken_posts() == 0) work_.post();
  return true;
}

bool StreamPackets::borrows_from(std::span<const std::byte> memory) const noexcept {
  const std::less_equal<> is_not_behind;
  return !borrowed_.empty() && is_not_behind(memory.data(), borrowed_.data()) &&
         is_not_behind(borrowed_.data() + borrowed_.size(), memory.data() + memory.size());
}

void StreamPackets::give_back(std::span<const std::byte> memory) noexcept {
  if (!borrows_from(memory)) return;
  try {
    kept_.insert(kept_.end(), borrowed_.begin(), borrowed_.end());
    borrowed_ = {};
  } catch (const std::bad_alloc&) {
    fail(out_of_memory());
  }
}

void StreamPackets::drop_borrowed() noexcept {
  if (!borrowed_.empty()) has_dropped_ = true;
  borrowed_ = {};
}

void StreamPackets::drop_sent(std::size_t bytes) noexcept {
  const std::size_t of_kept = std::min(bytes, kept_.size() - kept_sent_);
  kept_sent_ += of_kept;
  borrowed_ = borrowed_.subspan(bytes - of_kept);
  if (kept_sent_ != kept_.size()) return;
  kept_.clear();
  kept_sent_ = 0;
}

void StreamPackets::flush() noexcept {
  while (!is_all_sent()) {
    const int result = out_->try_send_some(std::span(kept_).subspan(kept_sent_), borrowed_);
    if (result == -EINTR) continue;
    if (result == -EAGAIN) return;
    if (result < 0) {
      fail_sending_by(result);
      return;
    }
    drop_sent(static_cast<std::size_t>(result));
  }
}

Task<> StreamPackets::serve_calling(Open call) {
  std::unique_ptr<ByteStream> stream = co_await call();
  own_call_ = std::move(stream);
  if (is_closed_) co_return;
  use_.services.spawn(serve(own_call_->serve()));
  send_on(*own_call_);
  if (own_call_->goes_both_ways()) co_await listen_to(*own_call_);
}

Task<> StreamPackets::serve_called(Open wait_for_call) {
  std::unique_ptr<ByteStream> stream = co_await wait_for_call();
  peers_call_ = std::move(stream);
  if (is_closed_) co_return;
  use_.services.spawn(serve(peers_call_->serve()));
  if (!peers_call_->goes_both_ways()) {
    co_await receive_from(*peers_call_);
    co_return;
  }
  const bool has_called = std::exchange(is_opened_, true);
  if (!has_called || use_.peer < use_.own) send_on(*peers_call_);
  co_await listen_to(*peers_call_);
}

void StreamPackets::send_on(ByteStream& stream) {
  if (out_) return;
  out_ = &stream;
  use_.services.spawn(serve(serve_sending()));
}

Task<> StreamPackets::serve_sending() {
  while (!is_closed_ && !is_out_over_) {
    flush();
    if (!is_closed_ && !is_out_over_ && is_all_sent()) {
      wake_waiter();
      use_.handler.room_came(use_.peer);
      if (is_all_sent()) co_await work_.wait();
      continue;
    }
    if (!is_closed_ && !is_out_over_) co_await out_->until_writable();
  }
}

Task<> StreamPackets::listen_to(ByteStream& stream) {
  int result = -EAGAIN;
  while (!in_ && !is_closed_ && (result == -EAGAIN || result == -EINTR)) {
    co_await stream.until_readable();
    if (in_ || is_closed_) co_return;
    result = stream.try_receive_some(staging_.room(tuning::sockets::kPacketsAtOnce));
  }
  if (in_ || is_closed_) co_return;
  if (result > 0) {
    staging_.append(static_cast<std::size_t>(result));
    is_drained_ = false;
    co_await receive_from(stream);
    co_return;
  }
  // Nothing was sent on one that ends; on the other one there may have been something, before both end.
  const bool is_only_one = &stream == peers_call_.get() && !own_call_;
  const bool is_last = std::exchange(has_one_ended_, true) || is_only_one;
  has_lost_words_ = result < 0;
  if (is_last || has_lost_words_) fail(end_of(stream, result));
}

Error StreamPackets::end_of(const ByteStream& stream, int result) const noexcept {
  return error_unless_out_of_memory([&] {
    if (result == 0)
      return Error(ErrorKind::LinkFault,
                   fmt::format("rank {} closed the connection of its messages", use_.peer));
    return stream.failure(-result, fmt::format("receiving a message from rank {}", use_.peer));
  });
}

Task<> StreamPackets::receive_from(ByteStream& stream) {
  in_ = &stream;
  bool has_come = staging_.size() != 0;
  while (!is_closed_) {
    if (watch_ == Watch::loop || is_polled()) {
      co_await receiving_.wait();
      continue;
    }
    watch_by(Watch::kernel);
    if (!std::exchange(has_come, false)) co_await in_->until_readable();
    if (is_closed_) co_return;
    if (use_.handler.waiting_for(use_.peer) != Waiting::nobody) use_.engine.note_answer();
    (void)look();
    if (use_.handler.waiting_for(use_.peer) != Waiting::for_this_rank) continue;
    watch_by(Watch::loop);
    vain_turns_ = 0;
  }
}

void StreamPackets::watch_by(Watch who) noexcept {
  if (watch_ == Watch::loop) --use_.looked_at;
  if (who == Watch::loop) ++use_.looked_at;
  watch_ = who;
}

void StreamPackets::leave_to_kernel() noexcept {
  watch_by(Watch::asked);
  if (receiving_.untaken_posts() == 0) receiving_.post();
}

bool StreamPackets::look() noexcept {
  (void)use_.engine.is_turn_over();  // from now on it is timed
  const std::uint64_t before = moves_;
  use_.handler.packets_came(use_.peer);
  const bool has_moved = moves_ != before;
  is_refused_ = !has_moved && (!is_polled() || has_something());
  return has_moved;
}

bool StreamPackets::has_something() const noexcept {
  const bool holds_a_packet = has_header_ ? is_whole() : staging_.size() >= kHeaderBytes;
  return holds_a_packet || (is_polled() ? in_->is_readable() : !is_drained_);
}

bool StreamPackets::is_waited_for() const noexcept {
  if (is_closed_) return false;
  if (has_more()) return true;
  const Waiting waiting = use_.handler.waiting_for(use_.peer);
  return is_polled() ? waiting != Waiting::nobody
                     : watch_ == Watch::loop && waiting == Waiting::for_this_rank;
}

void StreamPackets::look_for_breakage() noexcept {
  const bool has_news = out_ && !is_out_over_ && !out_->asks_kernel() && out_->is_readable();
  if (!has_news) return;
  std::array<std::byte, 1> nothing{};
  const int result = out_->try_receive_some(nothing);
  if (result < 0) fail_sending_by(result);
}

bool StreamPackets::poll() noexcept {
  if (is_closed_) return false;
  look_for_breakage();
  if (is_polled()) {
    watch_by(Watch::kernel);
    return has_more() && look();
  }
  const bool is_watching = watch_ == Watch::loop;
  const Waiting waiting = is_watching ? use_.handler.waiting_for(use_.peer) : Waiting::nobody;
  const bool has_moved = (waiting == Waiting::for_this_rank || has_more()) && look();
  vain_turns_ = has_moved ? 0 : vain_turns_ + 1;
  const bool is_enough = waiting == Waiting::for_anybody ||
                         vain_turns_ >= tuning::sockets::kTurnsBeforeKernel / std::max(1U, use_.looked_at);
  if (is_watching && is_enough && !is_closed_) leave_to_kernel();
  return has_moved;
}

bool StreamPackets::arm() noexcept {
  if (has_more()) return false;
  if (watch_ == Watch::kernel || is_closed_ || is_polled()) return true;
  leave_to_kernel();
  return false;
}

bool StreamPackets::receive(std::span<std::byte> into, std::size_t& bytes) noexcept {
  bytes = 0;
  if (is_closed_ || !in_) return false;
  const int result = in_->try_receive_some(into);
  if (result > 0) {
    bytes = static_cast<std::size_t>(result);
    is_drained_ = bytes < into.size();
    is_refused_ = false;
    ++moves_;
    return true;
  }
  is_drained_ = result != -EINTR;
  if (is_polled()) is_refused_ = false;  // as nothing is there
  if (result == -EAGAIN || result == -EINTR) return false;
  has_lost_words_ = result < 0 || has_header_ || staging_.size() != 0;
  fail(end_of(*in_, result));
  return false;
}

bool StreamPackets::peek(Packet& packet) noexcept {
  while (!has_header_) {
    if (staging_.size() < kHeaderBytes) {
      std::size_t bytes = 0;
      if (!receive(staging_.room(tuning::sockets::kPacketsAtOnce), bytes)) return false;
      staging_.append(bytes);
      continue;
    }
    has_header_ = decode(staging_.data(), next_);
    if (!has_header_ || next_.payload_bytes() > most_payload_of(next_)) {
      has_header_ = false;
      fail(protocol_error("rank {} sends a message of which nothing can be made", use_.peer));
      return false;
    }
    staging_.drop(kHeaderBytes);
    taken_ = 0;
  }
  packet = next_;
  return !is_closed_;
}

bool StreamPackets::spin() noexcept {
  if (use_.is_on_this_engine || use_.engine.is_oversubscribed()) return false;
  Packet packet;
  std::optional<TimePoint> end;
  for (unsigned look = 1; in_ && !is_closed_ && look <= kMostLooks; ++look) {
    if (peek(packet)) return true;
    if (look % tuning::sockets::kLooksInARow != 0) continue;
    if (!use_.engine.may_spin_on()) return false;
    const TimePoint now = use_.engine.now();
    if (!end) end = now + tuning::sockets::kLookTime;
    if (now >= *end || use_.engine.is_turn_over(now)) return false;
  }
  return false;
}

bool StreamPackets::take_by(Copy, std::byte* into) noexcept {
  const std::size_t all = next_.payload_bytes();
  while (taken_ < all) {
    const std::size_t staged = std::min(staging_.size(), all - taken_);
    if (staged != 0) {
      copy_bytes(into + taken_, staging_.data(), staged);
      staging_.drop(staged);
      taken_ += staged;
      continue;
    }
    std::size_t bytes = 0;
    if (!receive({into + taken_, all - taken_}, bytes)) return false;
    taken_ += bytes;
  }
  has_header_ = false;
  is_refused_ = false;
  ++moves_;
  return true;
}

}  // namespace cohort::framed
