// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/frame_writer.h>

#include <cohort/engine/assert.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace cohort::framed {
namespace {

using Kind = LinkOperation::Kind;

/// A frame up to this size is sent by whoever starts it.
constexpr std::size_t kDirectBytes = std::size_t{64} << 10;

bool has_payload(Kind kind) noexcept { return kind == Kind::put || kind == Kind::send; }
bool is_get(Kind kind) noexcept { return kind == Kind::get || kind == Kind::get_reduce; }

Slice payload_of(const LinkOperation::Request& request) noexcept {
  return has_payload(request.kind) ? request.local : Slice{};
}

FrameType type_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::post: return FrameType::signal;
    case Kind::put: return FrameType::put;
    case Kind::get:
    case Kind::get_reduce: return FrameType::get;
    default: return FrameType::data;
  }
}

}  // namespace

FrameHeader FrameWriter::header_of(const LinkOperation::Request& request) const noexcept {
  COHORT_ASSERT(request.remote.bytes == request.local.bytes || request.kind == Kind::send,
                "{} bytes here for {} bytes there", request.local.bytes, request.remote.bytes);
  const RunningOperation& running = connection_.host.running();
  FrameHeader header;
  header.type = type_of(request.kind);
  header.signal = request.signal;
  header.window = request.remote.window;
  header.lane = connection_.lane;
  header.source = connection_.self;
  header.sequence = running.sequence;
  header.signature = running.signature;
  header.offset = request.remote.offset;
  header.bytes = request.local.bytes;
  return header;
}

void FrameWriter::begin(const FrameHeader& header) noexcept {
  header_ = encode(header);
  sent_ = 0;
  is_begun_ = true;
  is_reply_ = header.type == FrameType::get_reply;
}

int FrameWriter::send_piece(const Slice& payload) noexcept {
  const std::byte* const bytes = payload.empty() ? nullptr : connection_.host.running().windows.at(payload);
  const std::size_t header_sent = std::min(sent_, kFrameBytes);
  const std::size_t payload_sent = sent_ - header_sent;
  // In pieces, so that receiving goes on meanwhile, and what was sent is still in the cache of the core that
  // receives it.
  const std::size_t piece = std::min(payload.bytes - payload_sent, connection_.stream.piece_bytes());
  const int result = connection_.stream.try_send_some(std::span(header_).subspan(header_sent),
                                                      std::span(bytes + payload_sent, piece));
  if (result > 0) sent_ += static_cast<std::size_t>(result);
  return result;
}

bool FrameWriter::start(LinkOperation& operation) noexcept {
  const Slice payload = payload_of(operation.request());
  operation.next = nullptr;
  const bool is_direct = payload.bytes <= kDirectBytes;
  if (connection_.is_open && is_idle() && is_direct && connection_.may_call_for(payload.bytes)) {
    begin(header_of(operation.request()));
    // What goes wrong here goes wrong again in poll(), which may report it.
    (void)send_piece(payload);
    if (is_sent(payload)) {
      is_begun_ = false;
      if (!is_get(operation.request().kind)) return true;
      connection_.get = &operation;
      return false;
    }
  }
  (first_ == nullptr ? first_ : last_->next) = &operation;
  last_ = &operation;
  return false;
}

bool FrameWriter::holds(const LinkOperation& operation) const noexcept {
  for (const LinkOperation* queued = first_; queued != nullptr; queued = queued->next)
    if (queued == &operation) return true;
  return false;
}

bool FrameWriter::forget(LinkOperation& operation) noexcept {
  const bool is_current = is_begun_ && !is_reply_ && first_ == &operation;
  pop(operation);
  if (!is_current) return true;
  is_begun_ = false;
  return sent_ == 0;
}

void FrameWriter::pop(LinkOperation& operation) noexcept {
  LinkOperation* before = nullptr;
  for (LinkOperation* queued = first_; queued != &operation; queued = queued->next) before = queued;
  (before == nullptr ? first_ : before->next) = operation.next;
  if (last_ == &operation) last_ = before;
}

void FrameWriter::reply(const FrameHeader& request) noexcept { reply_ = request; }

Slice FrameWriter::current() {
  if (!is_begun_ && reply_) {
    FrameHeader header = *reply_;
    header.type = FrameType::get_reply;
    header.source = connection_.self;
    begin(header);
  } else if (!is_begun_) {
    begin(header_of(first_->request()));
  }
  if (!is_reply_) return payload_of(first_->request());
  const RunningOperation& running = connection_.host.running();
  if (!running.is_running || running.sequence != reply_->sequence)
    throw Error(ErrorKind::ProtocolError,
                fmt::format("rank {} still reads this rank's memory for collective {}, which is over here",
                            connection_.peer, reply_->sequence));
  return {reply_->window, reply_->offset, reply_->bytes};
}

void FrameWriter::finish_current() noexcept {
  is_begun_ = false;
  if (is_reply_) {
    reply_.reset();
    Connection::wake(connection_.reader_work);  // which may have another
    return;
  }
  LinkOperation& operation = *first_;
  pop(operation);
  if (is_get(operation.request().kind))
    connection_.get = &operation;
  else
    operation.finish();
}

void FrameWriter::fail(Error error) noexcept {
  failure_ = std::move(error);
  Connection::wake(connection_.writer_work);
}

bool FrameWriter::poll() noexcept {
  return !is_idle() && !is_armed_ && !failure_ && connection_.is_open && go_on();
}

bool FrameWriter::go_on() noexcept {
  try {
    const Slice payload = current();
    const int result = send_piece(payload);
    if (is_sent(payload))
      finish_current();
    else if (result == -EAGAIN || result == -EINTR)
      return false;
    else if (result < 0)
      fail(connection_.stream.failure(-result, fmt::format("sending to rank {}", connection_.peer)));
  } catch (const Error& error) {
    fail(error);
  }
  return true;
}

bool FrameWriter::arm() noexcept {
  if (is_idle() || is_armed_ || !connection_.is_open) return true;
  wants_sleep_ = true;
  Connection::wake(connection_.writer_work);
  return false;
}

Task<> FrameWriter::run() {
  while (connection_.is_open) {
    if (failure_) throw Error(*failure_);
    const bool sleeps = std::exchange(wants_sleep_, false) && !is_idle();
    if (!sleeps) {
      co_await connection_.writer_work.wait();
      continue;
    }
    is_armed_ = true;
    co_await connection_.stream.until_writable();
    is_armed_ = false;
  }
}

}  // namespace cohort::framed
