// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/bulk_stream.h>

#include <cohort/engine/failure.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace cohort::framed {

template <class Byte, class Attempt, class Wait>
Task<> BulkStream::move_all(std::span<Byte> data, Attempt attempt, Wait wait, const char* doing) {
  while (!data.empty()) {
    const int result = attempt(data.first(std::min(data.size(), stream_->piece_bytes())));
    if (result > 0) {
      data = data.subspan(static_cast<std::size_t>(result));
      if (engine_.is_turn_over()) co_await engine_.let_others_run();
    } else if (result == 0) {
      throw Error(ErrorKind::LinkFault,
                  fmt::format("rank {} closed the connection of its large messages", peer_));
    } else if (result == -EAGAIN) {
      co_await wait();
      engine_.note_answer();
    } else if (result != -EINTR) {
      throw stream_->failure(-result, fmt::format("{} rank {}", doing, peer_));
    }
  }
}

Task<> BulkStream::send(std::span<const std::byte> data) {
  const auto attempt = [this](std::span<const std::byte> piece) { return stream_->try_send_some({}, piece); };
  const auto wait = [this] { return stream_->until_writable(); };
  return on_stream(move_all(data, attempt, wait, "sending a large message to"));
}

Task<> BulkStream::receive(std::span<std::byte> data) { return on_stream(receive_all(data)); }

Task<> BulkStream::receive_all(std::span<std::byte> data) {
  stream_->expect(data.size(), 0);
  const auto attempt = [this](std::span<std::byte> piece) { return stream_->try_receive_some(piece); };
  const auto wait = [this] { return stream_->until_readable(); };
  co_await move_all(data, attempt, wait, "receiving a large message from");
}

Task<> BulkStream::on_stream(Task<> moving) {
  const CancelScope* const scope = co_await current_scope();
  std::optional<Error> failure;
  try {
    co_await connect();
    co_await moving;
    co_return;
  } catch (...) {
    const bool was_closed = is_closed_;
    const bool is_cancelled = scope != nullptr && scope->is_cancelled();
    if (!was_closed && is_cancelled) host_.gives_up(peer_);  // before it sees the connection end
    shutdown();
    if (is_cancelled) throw;
    if (!was_closed) failure = as_error(std::current_exception());
  }
  if (failure) {
    is_broken_ = true;
    co_await engine_.sleep_for(kReasonTime);
    host_.link_failed(peer_, blamed_on(*failure, own_, peer_));
  }
  co_await engine_.sleep_until(kNever);  // until the cause comes
}

Task<> BulkStream::connect() {
  const Mutex::Guard one_at_a_time = co_await connecting_.lock();
  if (is_closed_) co_await engine_.sleep_until(kNever);
  if (stream_) co_return;
  std::unique_ptr<ByteStream> stream = co_await open_();
  if (is_closed_) stream->shutdown();
  stream_ = std::move(stream);
}

Task<> BulkStream::until_sent() {
  if (!is_closed_ && stream_) co_await stream_->until_sent();
}

void BulkStream::shutdown() noexcept {
  is_closed_ = true;
  if (stream_) stream_->shutdown();
}

}  // namespace cohort::framed
