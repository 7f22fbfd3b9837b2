// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/striped_stream.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cohort::tcp {
namespace {

bool is_transient(int result) noexcept { return result == -EAGAIN || result == -EINTR; }

}  // namespace

StripedStream::StripedStream(std::vector<std::unique_ptr<framed::ByteStream>> streams,
                             std::size_t spread_over)
    : streams_(std::move(streams)), out_{.sent = std::vector<std::size_t>(streams_.size())} {
  COHORT_ASSERT(!streams_.empty(), "a stream of no connections");
  this->spread_over(spread_over);
}

void StripedStream::spread_over(std::size_t connections) noexcept {
  used_ = std::clamp<std::size_t>(connections, 1, streams_.size());
}

std::size_t StripedStream::place(std::size_t connection, std::size_t of_share) const noexcept {
  return (of_share / kStripe * used_ + connection) * kStripe + of_share % kStripe;
}

void StripedStream::begin(std::span<const std::byte> header, std::span<const std::byte> payload) noexcept {
  out_.header = header;
  out_.payload = payload;
  out_.left = header.size() + payload.size();
  std::ranges::fill(out_.sent, 0);
  next_ = 0;
}

int StripedStream::try_send_some(std::span<const std::byte> first,
                                 std::span<const std::byte> second) noexcept {
  if (out_.is_under_way()) return send_on_all();
  if (second.size() < kStripeFrom) return streams_.front()->try_send_some(first, second);
  begin(first, second);
  const int result = send_on_all();
  if (result <= 0) out_.left = 0;  // it may never be sent
  return result;
}

int StripedStream::send_on_all() noexcept {
  std::size_t sent = 0;
  std::size_t in_vain = 0;  // one after the other
  while (out_.left != 0 && in_vain < used_ && sent < tuning::sockets::kPiece) {
    const int result = send_on(next_);
    next_ = (next_ + 1) % used_;
    if (result < 0 && !is_transient(result)) return result;
    in_vain = result > 0 ? 0 : in_vain + 1;
    sent += static_cast<std::size_t>(std::max(result, 0));
  }
  return sent == 0 ? -EAGAIN : static_cast<int>(sent);
}

int StripedStream::send_on(std::size_t connection) noexcept {
  std::size_t& sent = out_.sent[connection];
  const std::size_t at = std::min(place(connection, sent), out_.payload.size());
  const std::span<const std::byte> header = connection == 0 ? out_.header : std::span<const std::byte>();
  const std::span<const std::byte> piece =
      out_.payload.subspan(at, std::min(kStripe - sent % kStripe, out_.payload.size() - at));
  if (header.empty() && piece.empty()) return 0;
  const int result = streams_[connection]->try_send_some(header, piece);
  if (result <= 0) return result;
  const auto bytes = static_cast<std::size_t>(result);
  const std::size_t of_header = std::min(bytes, header.size());
  if (of_header != 0) out_.header = header.subspan(of_header);
  sent += bytes - of_header;
  out_.left -= bytes;
  return result;
}

std::size_t StripedStream::hindmost() const noexcept {
  if (!out_.is_under_way() || !out_.header.empty()) return 0;
  std::size_t found = 0;
  for (std::size_t one = 1; one < used_; ++one)
    if (place(one, out_.sent[one]) < place(found, out_.sent[found])) found = one;
  return found;
}

void StripedStream::expect(std::size_t bytes, std::size_t come) noexcept {
  expected_ = bytes >= kStripeFrom ? bytes : 0;
  come_ = expected_ == 0 ? 0 : come;
}

framed::ByteStream& StripedStream::current() const noexcept {
  return come_ < expected_ ? *streams_[come_ / kStripe % used_] : *streams_.front();
}

/// What is received together with a header is of the first stripe, if it is of any.
int StripedStream::try_receive_some(std::span<std::byte> into) noexcept {
  if (come_ == expected_)
    return streams_.front()->try_receive_some(into.first(std::min(into.size(), kStripe)));
  std::size_t got = 0;
  while (!into.empty() && come_ < expected_ && got < tuning::sockets::kPiece) {
    const std::size_t most = std::min({into.size(), kStripe - come_ % kStripe, expected_ - come_});
    const int result = current().try_receive_some(into.first(most));
    if (result <= 0)
      return got != 0 && (result == 0 || is_transient(result)) ? static_cast<int>(got) : result;
    const auto bytes = static_cast<std::size_t>(result);
    got += bytes;
    come_ += bytes;
    into = into.subspan(bytes);
    if (bytes < most) break;  // nothing more is there
  }
  return static_cast<int>(got);
}

Task<> StripedStream::until_writable() { return streams_[hindmost()]->until_writable(); }
Task<> StripedStream::until_readable() { return current().until_readable(); }

/// Between messages alone.
Task<int> StripedStream::receive_some(std::span<std::byte> into) {
  return streams_.front()->receive_some(into.first(std::min(into.size(), kStripe)));
}

void StripedStream::shutdown() noexcept {
  for (const auto& stream : streams_) stream->shutdown();
}

}  // namespace cohort::tcp
