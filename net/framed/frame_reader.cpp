// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/frame_reader.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/protocol_error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cohort::framed {
namespace {

using Kind = LinkOperation::Kind;

bool is_transient(int result) noexcept { return result == -EAGAIN || result == -EINTR; }
bool is_combined(Kind kind) noexcept { return kind == Kind::recv_reduce || kind == Kind::get_reduce; }

template <class... Values>
[[noreturn]] void throw_protocol(fmt::format_string<Values...> text, Values&&... values) {
  throw protocol_error(text, std::forward<Values>(values)...);
}

}  // namespace

FrameReader::FrameReader(Connection& connection, FrameWriter& writer)
    : connection_(connection), writer_(writer), staging_(connection.stream.combining_bytes()) {
  connection.stream.will_receive_into(staging_.block());
}

bool FrameReader::start_wait(LinkOperation& operation) noexcept {
  const auto index = static_cast<std::size_t>(operation.request().signal);
  COHORT_ASSERT(waits_[index] == nullptr, "two coroutines wait for one signal of rank {}", connection_.peer);
  if (untaken_[index] != 0) {
    --untaken_[index];
    return true;
  }
  waits_[index] = &operation;
  return is_over_at_once(operation);
}

bool FrameReader::start_receive(LinkOperation& operation) noexcept {
  const LinkOperation::Request& request = operation.request();
  COHORT_ASSERT(request.local.bytes % request.reducer.element_bytes == 0,
                "{} bytes are not whole elements of {}", request.local.bytes, request.reducer.element_bytes);
  operation.next = nullptr;
  (receives_ == nullptr ? receives_ : last_receive_->next) = &operation;
  last_receive_ = &operation;
  if (unaimed_ == nullptr) unaimed_ = &operation;
  return is_over_at_once(operation);
}

bool FrameReader::is_over_at_once(LinkOperation& operation) noexcept {
  if (watch_ == Watch::kernel || at_ == At::failed || !connection_.is_open) return false;
  starting_ = &operation;
  watch_ = Watch::poll;
  proceed();
  if (starting_ != nullptr && at_ == At::header && connection_.may_call_for(0)) {
    watch_ = Watch::started;
    // The end of the stream, and what is wrong with it, will be found again by poll().
    if (try_receive_header() > 0) proceed();
  }
  return std::exchange(starting_, nullptr) == nullptr;
}

bool FrameReader::forget(LinkOperation& operation) noexcept {
  if (connection_.get == &operation) {
    connection_.get = nullptr;
    return false;
  }
  LinkOperation* before = nullptr;
  bool is_untouched = false;
  for (LinkOperation* queued = receives_; queued != nullptr; before = queued, queued = queued->next) {
    is_untouched |= queued == unaimed_;
    if (queued != &operation) continue;
    const bool is_half_there = queued == unaimed_ && at_ == At::payload && frame_.type == FrameType::data;
    (before == nullptr ? receives_ : before->next) = operation.next;
    if (unaimed_ == &operation) unaimed_ = operation.next;
    if (last_receive_ == &operation) last_receive_ = before;
    return is_untouched && !is_half_there;
  }
  std::replace(waits_.begin(), waits_.end(), &operation, static_cast<LinkOperation*>(nullptr));
  return true;
}

bool FrameReader::is_awaited() const noexcept {
  const auto is_waiting = [](const LinkOperation* place) { return place != nullptr; };
  return receives_ != nullptr || connection_.get != nullptr ||
         std::any_of(waits_.begin(), waits_.end(), is_waiting);
}

void FrameReader::start_collective() {
  for (std::size_t i = 0; i < kSignals; ++i)
    if (untaken_[i] != 0)
      throw_protocol("rank {} posted {} {} times more than this rank waited for it in the last collective",
                     connection_.peer, to_string(static_cast<Signal>(i)), untaken_[i]);
  if (fetch_count_ != 0)
    throw_protocol("rank {} still sends bytes of the last collective, which is over here", connection_.peer);
  if (at_ == At::parked) proceed();
}

bool FrameReader::is_of_running_operation() const noexcept {
  const RunningOperation& running = connection_.host.running();
  return running.is_running && frame_.sequence == running.sequence && frame_.signature == running.signature;
}

bool FrameReader::is_due() {
  if (is_of_running_operation()) return true;
  const RunningOperation& running = connection_.host.running();
  const bool has_begun = frame_.sequence <= running.sequence;
  if (has_begun && connection_.host.ran_another(frame_.sequence, frame_.signature))
    at_ = At::mismatched;
  else if (frame_.sequence < running.sequence)
    throw_protocol("rank {} sends a {} frame of collective {} while this rank is at {}", connection_.peer,
                   to_string(frame_.type), frame_.sequence, running.sequence);
  return false;
}

void FrameReader::tell_of_mismatch() noexcept {
  at_ = At::told;
  connection_.host.mismatch(connection_.peer, frame_.sequence, frame_.signature);
}

void FrameReader::take_header() {
  const FrameHeader header = decode(std::span<const std::byte, kFrameBytes>(staging_.data(), kFrameBytes));
  if (header.source != connection_.peer)
    throw_protocol("a frame of rank {} came on the link to rank {}", header.source, connection_.peer);
  if (header.lane != connection_.lane)
    throw_protocol("a frame of lane {} came from rank {} on lane {}", header.lane, connection_.peer,
                   connection_.lane);
  staging_.drop(kFrameBytes);
  writer_.hear_of_reply();
  frame_ = header;
  at_ = At::parked;
}

bool FrameReader::begin_frame() {
  if (!is_due() || (fetch_count_ != 0 && !may_overtake()) || !aim_payload()) return false;
  if (fetch()) {
    at_ = At::header;
    return true;
  }
  if (fetch_count_ != 0) return false;
  at_ = At::payload;
  if (staging_.size() < payload_.left()) connection_.stream.expect(payload_.left(), staging_.size());
  payload_.take(staging_);
  return true;
}

void FrameReader::advance() {
  for (;;) {
    switch (at_) {
      case At::header:
        if (staging_.size() < kFrameBytes) return;
        take_header();
        break;
      case At::parked:
        if (!begin_frame()) return;
        break;
      case At::payload:
        if (!payload_.is_complete()) return;
        finish_frame();
        break;
      case At::mismatched:
      case At::told:
      case At::failed: return;
    }
  }
}

void FrameReader::proceed() noexcept {
  try {
    advance();
  } catch (const Error& error) {
    fail(error);
  }
  if (at_ == At::mismatched) Connection::wake(connection_.reader_work);
}

void FrameReader::fail(const Error& error) {
  failure_ = error;
  at_ = At::failed;
  Connection::wake(connection_.reader_work);
}

bool FrameReader::aim_payload() {
  payload_ = Payload();
  switch (frame_.type) {
    case FrameType::signal: return true;
    case FrameType::put:
      payload_ = Payload(connection_.host.running().windows.at(checked_slice()), frame_.bytes, nullptr);
      return true;
    case FrameType::get:
      (void)checked_slice();
      if (!writer_.can_reply()) return false;
      writer_.reply(frame_);
      return true;
    case FrameType::get_reply:
      if (connection_.get == nullptr)
        throw_protocol("rank {} sends {} bytes that this rank did not ask for", connection_.peer,
                       frame_.bytes);
      aim_at(*connection_.get);
      return true;
    case FrameType::data:
      if (unaimed_ == nullptr) return false;
      aim_at(*unaimed_);
      return true;
  }
  return false;
}

Slice FrameReader::checked_slice() const {
  const Slice slice(frame_.window, frame_.offset, frame_.bytes);
  const WindowTable& windows = connection_.host.running().windows;
  const bool is_put = frame_.type == FrameType::put;
  const bool is_exposed = slice.window != WindowId::scratch && !(is_put && slice.window == WindowId::send);
  if (!is_exposed)
    throw_protocol("rank {} wants to {} {} bytes in this rank's window {}, which peers may not",
                   connection_.peer, to_string(frame_.type), slice.bytes, to_string(slice.window));
  if (!windows.contains(slice))
    throw_protocol("rank {} wants to {} {} bytes at {} in this rank's window {}, which has {} bytes",
                   connection_.peer, to_string(frame_.type), slice.bytes, slice.offset,
                   to_string(slice.window), windows.size_bytes(slice.window));
  return slice;
}

void FrameReader::aim_at(const LinkOperation& operation) {
  const LinkOperation::Request& request = operation.request();
  if (frame_.bytes != request.local.bytes)
    throw_protocol("rank {} sends {} bytes where this rank expects {}", connection_.peer, frame_.bytes,
                   request.local.bytes);
  payload_ = Payload(connection_.host.running().windows.at(request.local), request.local.bytes,
                     is_combined(request.kind) ? &request.reducer : nullptr);
}

bool FrameReader::may_overtake() const noexcept {
  const bool is_stored =
      frame_.type == FrameType::data && unaimed_ != nullptr && !is_combined(unaimed_->request().kind);
  return is_stored || frame_.type == FrameType::put;
}

bool FrameReader::fetch() noexcept {
  const bool is_alone = staging_.size() == 0 && fetch_count_ != fetches_.size();
  const bool may_be_lent = frame_.type == FrameType::put || frame_.type == FrameType::data;
  if (!is_alone || !may_be_lent || payload_.left() <= tuning::sockets::kMostCopied) return false;
  const std::span<std::byte> place = payload_.place();
  if (place.empty() || !connection_.stream.try_fetch(place)) return false;
  fetches_[(first_fetch_ + fetch_count_++) % fetches_.size()] = {frame_.type, frame_.signal};
  if (frame_.type == FrameType::data) unaimed_ = unaimed_->next;
  return true;
}

bool FrameReader::collect() noexcept {
  const int result = connection_.stream.fetched();
  if (result == 0 || at_ == At::failed) return false;
  if (result < 0) {
    fail(broken(result));
    return true;
  }
  try {
    for (int i = 0; i < result; ++i) {
      const Fetch& oldest = fetches_[first_fetch_++ % fetches_.size()];
      --fetch_count_;
      deliver(oldest.type, oldest.signal);
    }
  } catch (const Error& error) {
    fail(error);
  }
  if (at_ == At::parked) proceed();
  return true;
}

void FrameReader::finish(LinkOperation& operation) noexcept {
  if (&operation == starting_)
    starting_ = nullptr;
  else
    operation.finish();
}

/// The oldest.
void FrameReader::finish_receive() noexcept {
  LinkOperation& operation = *receives_;
  receives_ = operation.next;
  if (unaimed_ == &operation) unaimed_ = operation.next;
  finish(operation);
}

void FrameReader::deliver(FrameType type, Signal signal) {
  switch (type) {
    case FrameType::signal:
    case FrameType::put: count(signal); break;
    case FrameType::get: break;
    case FrameType::get_reply: finish(*std::exchange(connection_.get, nullptr)); break;
    case FrameType::data: finish_receive(); break;
  }
}

void FrameReader::finish_frame() {
  at_ = At::header;
  deliver(frame_.type, frame_.signal);
}

void FrameReader::count(Signal signal) {
  const auto index = static_cast<std::size_t>(signal);
  if (waits_[index] != nullptr) {
    finish(*std::exchange(waits_[index], nullptr));
    return;
  }
  if (++untaken_[index] > kMostUntaken)
    throw_protocol("rank {} posted {} {} times without a wait, at most {} are allowed", connection_.peer,
                   to_string(signal), untaken_[index], kMostUntaken);
}

std::size_t FrameReader::wanted_bytes() const noexcept {
  const LinkOperation* const next = unaimed_ != nullptr ? unaimed_ : connection_.get;
  const bool is_large = next != nullptr && next->request().local.bytes > tuning::sockets::kMostCopied;
  return is_large && !is_combined(next->request().kind) ? kFrameBytes : tuning::sockets::kReceiveAtOnce;
}

int FrameReader::try_receive_header() noexcept {
  const int result = connection_.stream.try_receive_some(staging_.room(wanted_bytes()));
  if (result > 0) staging_.append(static_cast<std::size_t>(result));
  return result;
}

/// Of a collective that is over, nobody's memory is touched any more.
int FrameReader::try_receive_payload() noexcept {
  if (is_of_running_operation()) return payload_.receive(connection_.stream, staging_);
  fail(protocol_error("rank {} still sends {} bytes of collective {}, which is over here", connection_.peer,
                      payload_.left(), frame_.sequence));
  return -EAGAIN;
}

int FrameReader::try_receive() noexcept {
  return at_ == At::payload ? try_receive_payload() : try_receive_header();
}

Error FrameReader::broken(int result) const noexcept {
  const bool is_amid = at_ == At::payload || fetch_count_ != 0;
  const std::string_view where = is_amid ? " in the middle of a frame" : "";
  return error_unless_out_of_memory([&] {
    if (result == 0)
      return Error(ErrorKind::LinkFault, fmt::format("rank {} closed the connection of lane {}{}",
                                                     connection_.peer, connection_.lane, where));
    return connection_.stream.failure(-result,
                                      fmt::format("receiving from rank {}{}", connection_.peer, where));
  });
}

void FrameReader::take_result(int result) noexcept {
  if (result > 0)
    proceed();
  else if (!is_transient(result))
    fail(broken(result));
}

bool FrameReader::poll() noexcept {
  if (fetch_count_ != 0 && connection_.is_open && collect()) return true;
  if (watch_ == Watch::kernel || !is_reading() || !connection_.is_open) return false;
  const bool is_worth_a_look =
      at_ == At::payload || is_awaited() || ++unasked_turns_ % tuning::sockets::kTurnsBetweenLooks == 0;
  if (!is_worth_a_look) return false;
  if (watch_ == Watch::started) {
    watch_ = Watch::poll;
    return false;
  }
  const int result = try_receive();
  if (is_transient(result)) return false;
  take_result(result);
  return true;
}

bool FrameReader::arm() noexcept {
  const bool is_parked = at_ == At::parked || at_ == At::mismatched || at_ == At::told;
  if (watch_ == Watch::kernel || is_parked || !connection_.is_open) return true;
  watch_ = Watch::asked;
  Connection::wake(connection_.reader_work);
  return false;
}

Task<> FrameReader::run() {
  while (connection_.is_open) {
    if (at_ == At::failed) throw Error(*failure_);
    if (at_ == At::mismatched) tell_of_mismatch();
    if (at_ == At::parked) proceed();
    const bool sleeps = watch_ == Watch::asked && is_reading();
    watch_ = sleeps ? Watch::kernel : Watch::poll;
    if (!sleeps) {
      co_await connection_.reader_work.wait();
      continue;
    }
    int result = -EAGAIN;
    if (at_ == At::payload) {
      co_await connection_.stream.until_readable();
    } else {
      const std::span<std::byte> into = staging_.room(tuning::sockets::kReceiveAtOnce);
      result = co_await connection_.stream.receive_some(into);
      if (result > 0) staging_.append(static_cast<std::size_t>(result));
    }
    watch_ = Watch::poll;
    if (is_awaited()) connection_.engine.note_answer();
    take_result(result);
  }
}

}  // namespace cohort::framed
