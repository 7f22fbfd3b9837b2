// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/frame_writer.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace cohort::framed {
namespace {

using Kind = LinkOperation::Kind;

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
  is_lent_ = false;
  is_reply_ = header.type == FrameType::get_reply;
}

int FrameWriter::send_piece(const Slice& payload) noexcept {
  const std::byte* const bytes = payload.empty() ? nullptr : connection_.host.running().windows.at(payload);
  const std::size_t header_sent = std::min(sent_, kFrameBytes);
  const std::size_t payload_sent = sent_ - header_sent;
  if (sent_ == 0 && payload.bytes >= tuning::sockets::kLendFrom && !is_reply_ &&
      connection_.stream.try_lend(header_, std::span(bytes, payload.bytes))) {
    is_lent_ = true;
    sent_ = kFrameBytes + payload.bytes;
    return 1;
  }
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
  const bool is_direct = payload.bytes <= tuning::sockets::kDirect;
  if (connection_.is_open && is_idle() && is_direct && connection_.may_call_for(payload.bytes)) {
    begin(header_of(operation.request()));
    // What goes wrong here goes wrong again in poll(), which may report it.
    (void)send_piece(payload);
    if (is_sent(payload)) {
      is_begun_ = false;
      return is_over(operation);
    }
  }
  queue_.push(operation);
  return false;
}

bool FrameWriter::is_over(LinkOperation& operation) noexcept {
  if (is_lent_) {
    lent_.push(operation);
    return false;
  }
  if (!is_get(operation.request().kind)) return true;
  COHORT_ASSERT(connection_.get == nullptr, "two coroutines get from rank {}", connection_.peer);
  connection_.get = &operation;
  return false;
}

bool FrameWriter::holds(const LinkOperation& operation) const noexcept {
  return queue_.holds(operation) || lent_.holds(operation);
}

bool FrameWriter::forget(LinkOperation& operation) noexcept {
  const bool is_current = is_begun_ && !is_reply_ && queue_.first == &operation;
  if (!queue_.remove(operation)) return !lent_.remove(operation);
  if (!is_current) return true;
  is_begun_ = false;
  return sent_ == 0;
}

void FrameWriter::Queue::push(LinkOperation& operation) noexcept {
  operation.next = nullptr;
  (first == nullptr ? first : last->next) = &operation;
  last = &operation;
}

bool FrameWriter::Queue::remove(LinkOperation& operation) noexcept {
  LinkOperation* before = nullptr;
  for (LinkOperation* queued = first; queued != nullptr; before = queued, queued = queued->next) {
    if (queued != &operation) continue;
    (before == nullptr ? first : before->next) = operation.next;
    if (last == &operation) last = before;
    return true;
  }
  return false;
}

bool FrameWriter::Queue::holds(const LinkOperation& operation) const noexcept {
  for (const LinkOperation* queued = first; queued != nullptr; queued = queued->next)
    if (queued == &operation) return true;
  return false;
}

void FrameWriter::reply(const FrameHeader& request) noexcept { reply_ = request; }

Slice FrameWriter::current() {
  if (!is_begun_ && reply_) {
    FrameHeader header = *reply_;
    header.type = FrameType::get_reply;
    header.source = connection_.self;
    begin(header);
  } else if (!is_begun_) {
    begin(header_of(queue_.first->request()));
  }
  if (!is_reply_) return payload_of(queue_.first->request());
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
  LinkOperation& operation = *queue_.first;
  (void)queue_.remove(operation);
  if (is_over(operation)) operation.finish();
}

bool FrameWriter::collect() noexcept {
  const int result = connection_.stream.returned();
  if (result < 0) fail_by(result);
  for (int i = 0; i < result; ++i) {
    LinkOperation& operation = *lent_.first;
    (void)lent_.remove(operation);
    operation.finish();
  }
  return result != 0;
}

void FrameWriter::fail(const Error& error) noexcept {
  failure_ = error;
  Connection::wake(connection_.writer_work);
}

void FrameWriter::fail_by(int result) noexcept {
  fail(error_unless_out_of_memory([&] {
    return connection_.stream.failure(-result, fmt::format("sending to rank {}", connection_.peer));
  }));
}

bool FrameWriter::poll() noexcept {
  if (failure_ || !connection_.is_open) return false;
  const bool has_collected = lent_.first != nullptr && collect();
  const bool has_sent = !is_idle() && !is_armed_ && !failure_ && go_on();
  return has_collected || has_sent;
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
      fail_by(result);
  } catch (...) {
    fail(as_error(std::current_exception()));
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
