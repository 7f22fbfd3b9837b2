// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/stream_letters.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <cstring>

namespace cohort::framed {
namespace {

constexpr std::uint32_t kLettersMagic = 0x4c435443;  // "CTCL"
constexpr std::size_t kHeaderBytes = 32;
using Header = std::array<std::byte, kHeaderBytes>;
/// Together with a header: small letters come several at a time.
constexpr std::size_t kReceiveAtOnceBytes = std::size_t{16} << 10;

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
Header encode(const Letter& letter) noexcept {
  Header header{};
  put(header, 0, kLettersMagic);
  put(header, 4, static_cast<std::uint8_t>(letter.kind));
  put(header, 8, static_cast<std::uint32_t>(letter.tag));
  put(header, 12, letter.id);
  put(header, 16, letter.bytes);
  return header;
}

bool decode(const std::byte* header, Letter& letter) noexcept {
  const auto kind = get<std::uint8_t>(header, 4);
  letter = {.kind = static_cast<Letter::Kind>(kind),
            .tag = static_cast<std::int32_t>(get<std::uint32_t>(header, 8)),
            .id = get<std::uint32_t>(header, 12),
            .bytes = get<std::uint64_t>(header, 16)};
  const bool is_kind = kind >= 1 && kind <= static_cast<std::uint8_t>(Letter::Kind::credit);
  return is_kind && get<std::uint32_t>(header, 0) == kLettersMagic;
}

}  // namespace

StreamLetters::StreamLetters(LinkHost& host, LetterHandler& handler, TaskScope& services, Rank own, Rank peer,
                             Open call, Open wait_for_call)
    : host_(host),
      handler_(handler),
      services_(services),
      own_(own),
      peer_(peer),
      call_(std::move(call)),
      staging_(kReceiveAtOnceBytes) {
  services_.spawn(serve(serve_receiving(std::move(wait_for_call))));
}

void StreamLetters::shutdown() noexcept {
  is_closed_ = true;
  if (out_) out_->shutdown();
  if (in_) in_->shutdown();
  if (work_.untaken_posts() == 0) work_.post();
  wake_waiter();
}

Task<> StreamLetters::until_sent() {
  while (!is_closed_ && is_called_ && (!out_ || !kept_.empty())) {
    is_waited_for_ = true;
    co_await sent_.wait();
  }
  if (!is_closed_ && !is_out_over_ && out_) co_await out_->until_sent();
}

/// Whoever waits in until_sent() looks again.
void StreamLetters::wake_waiter() noexcept {
  if (std::exchange(is_waited_for_, false) && sent_.untaken_posts() == 0) sent_.post();
}

void StreamLetters::fail(const Error& error) noexcept {
  if (is_closed_) return;
  shutdown();
  host_.link_failed(peer_, blamed_on(error, own_, peer_));
}

void StreamLetters::fail_sending(const Error& error) noexcept {
  if (is_closed_ || std::exchange(is_out_over_, true)) return;
  out_->shutdown();
  kept_.clear();
  wake_waiter();
  host_.link_failed(peer_, blamed_on(error, own_, peer_));
}

Task<> StreamLetters::serve(Task<> one) {
  const CancelScope* const scope = co_await current_scope();
  try {
    co_await one;
  } catch (const Error& error) {
    if (scope == nullptr || !scope->is_cancelled()) fail(error);
  } catch (...) {
    fail(as_error(std::current_exception()));
  }
}

bool StreamLetters::try_send(const Letter& letter, const std::byte* payload) noexcept {
  if (is_closed_) return false;
  if (!std::exchange(is_called_, true)) services_.spawn(serve(serve_sending(call_)));
  if (!out_ || is_out_over_ || !kept_.empty()) return false;
  const Header header = encode(letter);
  const std::span<const std::byte> body(payload, letter.payload_bytes());
  COHORT_ASSERT(body.size() <= kMostPayload, "a letter of {} bytes", body.size());
  const int result = out_->try_send_some(header, body);
  const std::size_t sent = result > 0 ? static_cast<std::size_t>(result) : 0;
  if (sent == header.size() + body.size()) return true;
  const std::size_t of_header = std::min(sent, header.size());
  kept_.assign(header.begin() + static_cast<std::ptrdiff_t>(of_header), header.end());
  const auto rest = body.subspan(sent - of_header);
  kept_.insert(kept_.end(), rest.begin(), rest.end());
  kept_sent_ = 0;
  if (work_.untaken_posts() == 0) work_.post();
  return true;
}

void StreamLetters::flush() noexcept {
  while (kept_sent_ < kept_.size()) {
    const int result = out_->try_send_some(std::span(kept_).subspan(kept_sent_), {});
    if (result == -EINTR) continue;
    if (result == -EAGAIN) return;
    if (result < 0) {
      fail_sending(out_->failure(-result, fmt::format("sending a message to rank {}", peer_)));
      return;
    }
    kept_sent_ += static_cast<std::size_t>(result);
  }
  kept_.clear();
}

Task<> StreamLetters::serve_sending(Open call) {
  std::unique_ptr<ByteStream> stream = co_await call();
  out_ = std::move(stream);
  while (!is_closed_ && !is_out_over_) {
    flush();
    if (!is_closed_ && !is_out_over_ && kept_.empty()) {
      wake_waiter();
      handler_.room_came(peer_);
      if (kept_.empty()) co_await work_.wait();
      continue;
    }
    if (!is_closed_ && !is_out_over_) co_await out_->until_writable();
  }
}

Task<> StreamLetters::serve_receiving(Open wait_for_call) {
  std::unique_ptr<ByteStream> stream = co_await wait_for_call();
  in_ = std::move(stream);
  while (!is_closed_) {
    co_await in_->until_readable();
    if (!is_closed_) handler_.letters_came(peer_);
  }
}

bool StreamLetters::receive(std::span<std::byte> into, std::size_t& bytes) noexcept {
  bytes = 0;
  if (is_closed_ || !in_) return false;
  const int result = in_->try_receive_some(into);
  if (result > 0) {
    bytes = static_cast<std::size_t>(result);
    return true;
  }
  if (result == -EAGAIN || result == -EINTR) return false;
  has_lost_words_ = result < 0 || has_header_ || staging_.size() != 0;
  if (result == 0)
    fail(Error(ErrorKind::LinkFault, fmt::format("rank {} closed the connection of its messages", peer_)));
  else
    fail(in_->failure(-result, fmt::format("receiving a message from rank {}", peer_)));
  return false;
}

bool StreamLetters::peek(Letter& letter) noexcept {
  while (!has_header_) {
    if (staging_.size() < kHeaderBytes) {
      std::size_t bytes = 0;
      if (!receive(staging_.room(kReceiveAtOnceBytes), bytes)) return false;
      staging_.append(bytes);
      continue;
    }
    has_header_ = decode(staging_.data(), next_);
    if (!has_header_ || next_.payload_bytes() > kMostPayload) {
      has_header_ = false;
      fail(Error(ErrorKind::ProtocolError,
                 fmt::format("rank {} sends a message of which nothing can be made", peer_)));
      return false;
    }
    staging_.drop(kHeaderBytes);
    taken_ = 0;
  }
  letter = next_;
  return !is_closed_;
}

bool StreamLetters::take(std::byte* into) noexcept {
  const std::size_t all = next_.payload_bytes();
  while (taken_ < all) {
    const std::size_t staged = std::min(staging_.size(), all - taken_);
    if (staged != 0) {
      std::memcpy(into + taken_, staging_.data(), staged);
      staging_.drop(staged);
      taken_ += staged;
      continue;
    }
    std::size_t bytes = 0;
    if (!receive({into + taken_, all - taken_}, bytes)) return false;
    taken_ += bytes;
  }
  has_header_ = false;
  return true;
}

}  // namespace cohort::framed
