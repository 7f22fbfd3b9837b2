// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/shm/shm_link.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/host/touch.h>
#include <cohort/net/protocol_error.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cohort::shm {

namespace {

static_assert(tuning::stages::kLinkPiece <= Pace::kBytesBetweenLooks);  // a stage is filled at once

}  // namespace

using Kind = LinkOperation::Kind;

ShmLink::ShmLink(host::HostGroup& group, LinkOwner& host, Rank peer, Lane lane) noexcept
    : Link(peer), group_(group), host_(host), lane_(lane) {}

ShmLink::~ShmLink() {
  COHORT_ASSERT(waiting_count_ == 0, "a link to rank {} ended with {} operations on it", peer(),
                waiting_count_);
  unlink();
}

std::byte* ShmLink::local(const Slice& slice) const noexcept { return host_.running().windows.at(slice); }
std::byte* ShmLink::remote(const Slice& slice) const noexcept { return group_.windows(peer()).at(slice); }

std::size_t ShmLink::place_of(const LinkOperation::Request& request) noexcept {
  switch (request.kind) {
    case Kind::recv:
    case Kind::recv_reduce: return 1;
    case Kind::wait: return 2 + static_cast<std::size_t>(request.signal);
    default: return 0;
  }
}

bool ShmLink::start(LinkOperation& operation) {
  const LinkOperation::Request& request = operation.request();
  if (sequence_ != host_.running().sequence) begin_collective();
  if (!operation.is_pending()) return false;  // cancelled by what the peer had left
  if (request.kind == Kind::post) {
    post(request.signal);
    return true;
  }
  operation.progress = 0;
  if (advance(operation, false)) return true;
  if (!operation.is_pending()) return false;
  LinkOperation*& place = waiting_[place_of(request)];
  COHORT_ASSERT(place == nullptr, "two coroutines use the same direction of the link to rank {}", peer());
  place = &operation;
  if (waiting_count_++ == 0) group_.watch(*this);
  return false;
}

/// Nothing of an operation is left in a kernel. What was announced in place the peer may still find; it reads
/// that in a touch only, which a cancelled collective waits for, or forbids, before its buffers go.
void ShmLink::cancel(LinkOperation& operation) noexcept {
  LinkOperation*& place = waiting_[place_of(operation.request())];
  if (place == &operation) {  // not so while it begins
    place = nullptr;
    if (--waiting_count_ == 0) unlink();
  }
  operation.finish();
}

bool ShmLink::poll() noexcept {
  bool progress = false;
  for (LinkOperation*& place : waiting_) {
    LinkOperation* const operation = place;
    if (operation == nullptr) continue;
    const std::size_t before = operation->progress;
    const bool is_over = advance(*operation, true);
    progress |= is_over || operation->progress != before;
    if (!is_over) continue;
    place = nullptr;
    if (--waiting_count_ == 0) unlink();
    operation->finish();
  }
  return progress;
}

bool ShmLink::advance(LinkOperation& operation, bool has_waited) noexcept {
  if (is_broken_) return false;
  switch (operation.request().kind) {
    case Kind::wait: return advance_wait(operation);
    case Kind::send: return advance_send(operation, has_waited);
    case Kind::put: return advance_put(operation, has_waited);
    case Kind::get:
    case Kind::get_reduce: return advance_get(operation, has_waited);
    default: return advance_receive(operation, has_waited);
  }
}

void ShmLink::fail(const Error& error) noexcept {
  if (std::exchange(is_broken_, true)) return;
  host_.link_failed(peer(), blamed_on(error, group_.rank(), peer()));
}

void ShmLink::post(Signal signal) noexcept {
  const auto index = static_cast<std::size_t>(signal);
  host::SignalCell& cell = group_.segment(peer()).signals(group_.rank(), lane_);
  const std::uint32_t number = posted_[index]++;
  cell.collective[index][number % host::SignalCell::kStamps].store(
      static_cast<std::uint16_t>(host_.running().sequence), std::memory_order_relaxed);
  cell.posted[index].store(posted_[index], std::memory_order_seq_cst);
  group_.notify(peer());
}

int ShmLink::lead_of_next(std::size_t signal, std::uint32_t skipped) const noexcept {
  const std::uint32_t number = taken_[signal] + skipped;
  const auto& stamps = group_.own().signals(peer(), lane_).collective[signal];
  const std::uint16_t theirs = stamps[number % host::SignalCell::kStamps].load(std::memory_order_relaxed);
  return static_cast<std::int16_t>(theirs - static_cast<std::uint16_t>(host_.running().sequence));
}

void ShmLink::begin_collective() noexcept {
  sequence_ = host_.running().sequence;
  const host::SignalCell& cell = group_.own().signals(peer(), lane_);
  for (std::size_t signal = 0; signal < kSignals; ++signal) {
    const bool has_untaken = cell.posted[signal].load(std::memory_order_acquire) != taken_[signal];
    if (has_untaken && lead_of_next(signal) < 0) fail_left_over(static_cast<Signal>(signal));
  }
}

void ShmLink::fail_left_over(Signal signal) noexcept {
  fail(protocol_error("rank {} posted {} more often than this rank waited for it in an earlier collective",
                      peer(), to_string(signal)));
}

bool ShmLink::advance_wait(const LinkOperation& operation) noexcept {
  const Signal signal = operation.request().signal;
  const auto index = static_cast<std::size_t>(signal);
  const host::SignalCell& cell = group_.own().signals(peer(), lane_);
  const std::uint32_t untaken = cell.posted[index].load(std::memory_order_seq_cst) - taken_[index];
  if (untaken == 0) return false;
  const bool too_many = untaken > host::SignalCell::kStamps ||
                        (untaken > kMostUntaken && lead_of_next(index, kMostUntaken) == 0);
  if (too_many)
    fail(protocol_error("rank {} posted {} {} times without a wait, at most {} are allowed", peer(),
                        to_string(signal), untaken, kMostUntaken));
  const int lead = lead_of_next(index);
  if (lead < 0) fail_left_over(signal);
  if (is_broken_ || lead != 0) return false;
  ++taken_[index];
  return true;
}

template <class Move>
bool ShmLink::move_awhile(std::size_t& done, std::size_t size, bool touches, bool& has_waited,
                          Move move) noexcept {
  Pace& pace = group_.engine().pace();
  const auto move_on = [&] {
    return pace.move_awhile(done, size, Pace::kBytesBetweenLooks, size, has_waited, move);
  };
  if (!touches) return move_on();
  host::Touch touch;
  if (!touch.begin(group_, peer())) return false;
  const bool is_done = move_on();
  if (touch.end()) return is_done;
  done = 0;
  return false;
}

void ShmLink::take(const LinkOperation::Request& request, std::byte* to, const std::byte* from,
                   std::size_t bytes) noexcept {
  const bool is_combined = request.kind == Kind::get_reduce || request.kind == Kind::recv_reduce;
  if (is_combined)
    request.reducer.fold(request.reducer, to, from, bytes);
  else
    copy_bytes(to, from, bytes);
}

/// progress counts bytes that are there.
bool ShmLink::advance_put(LinkOperation& operation, bool has_waited) noexcept {
  const LinkOperation::Request& request = operation.request();
  COHORT_ASSERT(request.local.bytes == request.remote.bytes, "put of {} bytes to a slice of {}",
                request.local.bytes, request.remote.bytes);
  const auto write = [&](std::size_t at, std::size_t bytes) {
    copy_bytes(remote(request.remote) + at, local(request.local) + at, bytes);
  };
  const bool touches = is_user_window(request.remote.window);
  if (!move_awhile(operation.progress, request.local.bytes, touches, has_waited, write)) return false;
  post(request.signal);
  return true;
}

/// progress counts bytes that are here.
bool ShmLink::advance_get(LinkOperation& operation, bool has_waited) noexcept {
  const LinkOperation::Request& request = operation.request();
  COHORT_ASSERT(request.local.bytes == request.remote.bytes, "get of {} bytes to a slice of {}",
                request.remote.bytes, request.local.bytes);
  const auto read = [&](std::size_t at, std::size_t bytes) {
    take(request, local(request.local) + at, remote(request.remote) + at, bytes);
  };
  const bool touches = is_user_window(request.remote.window);
  return move_awhile(operation.progress, request.local.bytes, touches, has_waited, read);
}

void ShmLink::announce_piece(std::byte* at, std::size_t left_bytes, host::SendCell::Place place) noexcept {
  host::SendCell& cell = group_.own().sends(peer(), lane_);
  const bool in_process = place == host::SendCell::Place::address;
  cell.piece[sent_ % tuning::stages::kLinkPieces] = {
      .address_or_offset = in_process ? reinterpret_cast<std::uintptr_t>(at)
                                      : static_cast<std::uint64_t>(at - group_.own().memory().data()),
      .left_bytes = left_bytes,
      .place = place};
  cell.sent.store(++sent_, std::memory_order_seq_cst);
  group_.notify(peer());
}

/// progress counts announced bytes. Complete when the peer has consumed all that was announced.
bool ShmLink::advance_send(LinkOperation& operation, bool has_waited) noexcept {
  const Slice& slice = operation.request().local;
  std::byte* const from = local(slice);
  const bool in_process = group_.is_in_process(peer());
  const bool in_place = in_process || group_.own().memory().contains(from, slice.bytes);
  for (;;) {
    const std::uint32_t consumed =
        group_.segment(peer()).receives(group_.rank(), lane_).consumed.load(std::memory_order_seq_cst);
    const std::size_t left = slice.bytes - operation.progress;
    if (left == 0) return host::has_reached(consumed, sent_);
    if (!host::has_reached(consumed + tuning::stages::kLinkPieces - 1, sent_)) return false;
    if (in_place) {
      using Place = host::SendCell::Place;
      announce_piece(from, left, in_process ? Place::address : Place::segment);
      operation.progress = slice.bytes;
      continue;
    }
    const std::size_t bytes = std::min(left, tuning::stages::kLinkPiece);
    std::byte* stage = group_.own().at(group_.layout().stage(peer(), lane_, sent_));
    const auto fill = [&](std::size_t at, std::size_t size) {
      copy_bytes(stage + at, from + operation.progress + at, size);
    };
    std::size_t filled = 0;
    if (!move_awhile(filled, bytes, false, has_waited, fill)) return false;
    announce_piece(stage, left, host::SendCell::Place::stage);
    operation.progress += bytes;
  }
}

ShmLink::Announced ShmLink::announced(std::size_t left) noexcept {
  host::Segment& theirs = group_.segment(peer());
  const host::SendCell::Piece piece =
      theirs.sends(group_.rank(), lane_).piece[received_ % tuning::stages::kLinkPieces];
  const bool is_staged = piece.place == host::SendCell::Place::stage;
  const std::size_t bytes = is_staged ? std::min(left, tuning::stages::kLinkPiece) : left;
  const bool in_process = piece.place == host::SendCell::Place::address;
  const std::size_t segment_bytes = theirs.memory().size_bytes();
  const bool fits_segment =
      piece.address_or_offset <= segment_bytes && bytes <= segment_bytes - piece.address_or_offset;
  const bool is_valid = in_process ? group_.is_in_process(peer()) : fits_segment;
  if (piece.left_bytes != left || !is_valid) {
    fail(protocol_error("rank {} sends {} bytes where {} were expected", peer(), piece.left_bytes, left));
    return {};
  }
  const std::byte* const at = in_process ? reinterpret_cast<const std::byte*>(piece.address_or_offset)
                                         : theirs.memory().data() + piece.address_or_offset;
  return {.at = at, .bytes = bytes, .may_be_users = !is_staged};
}

/// progress counts bytes that have arrived.
bool ShmLink::advance_receive(LinkOperation& operation, bool has_waited) noexcept {
  const LinkOperation::Request& request = operation.request();
  const host::SendCell& cell = group_.segment(peer()).sends(group_.rank(), lane_);
  if (operation.progress == 0) taken_of_piece_ = 0;
  while (operation.progress < request.local.bytes) {
    if (!host::has_reached(cell.sent.load(std::memory_order_seq_cst), received_ + 1)) return false;
    const std::size_t begin = operation.progress - taken_of_piece_;
    const Announced piece = announced(request.local.bytes - begin);
    if (piece.at == nullptr) return false;
    std::byte* const to = local(request.local) + begin;
    const auto receive = [&](std::size_t at, std::size_t size) {
      take(request, to + at, piece.at + at, size);
    };
    const bool is_whole = move_awhile(taken_of_piece_, piece.bytes, piece.may_be_users, has_waited, receive);
    operation.progress = begin + taken_of_piece_;
    if (!is_whole) return false;
    taken_of_piece_ = 0;
    group_.own().receives(peer(), lane_).consumed.store(++received_, std::memory_order_seq_cst);
    group_.notify(peer());
  }
  return true;
}

}  // namespace cohort::shm
