// SPDX-License-Identifier: Apache-2.0
// What every link does over several connections is among the conformance tests.
#include <cohort/net/tcp/striped_stream.h>

#include <cohort/engine/world/random.h>
#include <cohort/net/framed/framed_link.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/tests/net/link_end.h>

#include <gmock/gmock.h>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cohort::test::striped_stream_test {
namespace {

using framed::FrameBytes;
using framed::FrameHeader;
using framed::FrameType;
using tcp::StripedStream;
using ::testing::HasSubstr;

constexpr std::size_t kStripe = StripedStream::kStripe;
constexpr std::size_t kStripeFrom = StripedStream::kStripeFrom;

/// What one connection carries one way: as much as it has room for, in parts.
struct Pipe {
  std::size_t room = ~std::size_t{0};
  std::deque<std::byte> bytes;
  std::size_t carried = 0;
  int failure = 0;  ///< what each call answers instead
};

/// One end of a connection whose other end may be another of these.
class PipeStream final : public framed::ByteStream {
 public:
  PipeStream(Pipe& out, Pipe& in, world::Random* parts) : out_(out), in_(in), parts_(parts) {}

  int try_send_some(std::span<const std::byte> first, std::span<const std::byte> second) noexcept override {
    if (out_.failure != 0) return out_.failure;
    const std::size_t most = out_.room - std::min(out_.room, out_.bytes.size());
    std::size_t sent = 0;
    for (const std::span<const std::byte> piece : {first, second}) {
      const auto part = piece.first(std::min(piece.size(), most - sent));
      out_.bytes.insert(out_.bytes.end(), part.begin(), part.end());
      sent += part.size();
    }
    out_.carried += sent;
    return sent == 0 ? -EAGAIN : static_cast<int>(sent);
  }
  int try_receive_some(std::span<std::byte> into) noexcept override {
    if (in_.failure != 0) return in_.failure;
    std::size_t most = std::min(into.size(), in_.bytes.size());
    if (most == 0) return -EAGAIN;
    if (parts_ != nullptr) most = parts_->between(1, most);
    std::copy_n(in_.bytes.begin(), most, into.begin());
    in_.bytes.erase(in_.bytes.begin(), in_.bytes.begin() + static_cast<std::ptrdiff_t>(most));
    return static_cast<int>(most);
  }
  Task<> until_writable() override { co_return; }
  Task<> until_readable() override { co_return; }
  Task<int> receive_some(std::span<std::byte> into) override { co_return try_receive_some(into); }
  Task<> until_sent() override { co_return; }
  void shutdown() noexcept override {}
  std::string explain(int) const override { return "it broke"; }

 private:
  Pipe& out_;
  Pipe& in_;
  world::Random* parts_;
};

using Pipes = std::vector<Pipe>;

StripedStream stream_over(Pipes& out, Pipes& in, world::Random* parts = nullptr) {
  std::vector<std::unique_ptr<framed::ByteStream>> streams;
  for (std::size_t i = 0; i < out.size(); ++i)
    streams.push_back(std::make_unique<PipeStream>(out[i], in[i], parts));
  const std::size_t connections = streams.size();
  return StripedStream(std::move(streams), connections);
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  world::Random random(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random.next());
  return made;
}

/// A message as links send and receive it: a header, and a payload behind it.
struct Sending {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
  std::size_t sent = 0;

  [[nodiscard]] bool is_over() const noexcept { return sent == header.size() + payload.size(); }
  int attempt(StripedStream& stream) {
    const std::size_t of_header = std::min(sent, header.size());
    const int result = stream.try_send_some(std::span(header).subspan(of_header),
                                            std::span(payload).subspan(sent - of_header));
    if (result > 0) sent += static_cast<std::size_t>(result);
    return result;
  }
};

/// As a frame's reader does: takes what comes together with the header.
class Receiving {
 public:
  explicit Receiving(StripedStream& stream) : stream_(stream), some_(kStripe) {}

  /// Of a message of these sizes: its payload, once it is whole.
  std::optional<std::vector<std::byte>> attempt(std::size_t header_bytes, std::size_t payload_bytes) {
    if (!is_amid_ && staged_.size() < header_bytes) receive(staged_, some_.size());
    if (!is_amid_ && staged_.size() < header_bytes) return std::nullopt;
    if (!is_amid_) begin(header_bytes, payload_bytes);
    if (payload_.size() < payload_bytes) receive(payload_, payload_bytes - payload_.size());
    if (payload_.size() < payload_bytes) return std::nullopt;
    is_amid_ = false;
    return std::exchange(payload_, {});
  }

 private:
  void receive(std::vector<std::byte>& to, std::size_t most) {
    const int result = stream_.try_receive_some(std::span(some_).first(std::min(most, some_.size())));
    if (result > 0) to.insert(to.end(), some_.begin(), some_.begin() + result);
  }
  void begin(std::size_t header_bytes, std::size_t payload_bytes) {
    const std::size_t come = std::min(staged_.size() - header_bytes, payload_bytes);
    const auto first = staged_.begin() + static_cast<std::ptrdiff_t>(header_bytes);
    const auto end = first + static_cast<std::ptrdiff_t>(come);
    payload_.assign(first, end);
    staged_.erase(staged_.begin(), end);
    stream_.expect(payload_bytes, come);
    is_amid_ = true;
  }

  StripedStream& stream_;
  std::vector<std::byte> some_;
  std::vector<std::byte> staged_;
  std::vector<std::byte> payload_;
  bool is_amid_ = false;
};

std::size_t draw_size(world::Random& random) {
  constexpr std::size_t kMost[] = {0, 100, kStripe, kStripeFrom, kStripeFrom + 1, 1'000'000};
  const std::size_t most = random.pick(kMost);
  return random.chance(30) ? most : random.between(0, most);
}

/// Over connections that have little room, and bring parts.
TEST(StripedStream, brings_messages_of_any_size_in_their_order) {
  constexpr std::size_t kHeader = 64;
  constexpr std::size_t kMessages = 20;
  for (const std::size_t connections : {1U, 2U, 3U, 4U, 16U}) {
    world::Random random(connections);
    Pipes pipes(connections);
    for (Pipe& pipe : pipes) pipe.room = random.between(1000, 3 * kStripe);
    StripedStream sender = stream_over(pipes, pipes);
    StripedStream receiver = stream_over(pipes, pipes, &random);
    Receiving receiving(receiver);
    std::vector<Sending> messages;
    for (std::uint64_t i = 0; i < kMessages; ++i)
      messages.push_back({pattern(kHeader, i), pattern(draw_size(random), i + 100)});
    std::size_t sent = 0;
    std::size_t come = 0;
    for (int turns = 0; come < kMessages; ++turns) {
      ASSERT_LT(turns, 10'000'000) << connections << " connections hang at message " << come;
      if (sent < kMessages) (void)messages[sent].attempt(sender);
      if (sent < kMessages && messages[sent].is_over()) ++sent;
      const auto whole = receiving.attempt(kHeader, messages[come].payload.size());
      if (!whole) continue;
      EXPECT_EQ(*whole, messages[come].payload) << connections << " connections, message " << come;
      ++come;
    }
  }
}

TEST(StripedStream, spreads_what_is_large_and_nothing_else) {
  constexpr std::size_t kConnections = 4;
  Pipes pipes(kConnections);
  StripedStream sender = stream_over(pipes, pipes);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, kStripeFrom - 1}) {
    Sending small{.header = pattern(64, 1), .payload = pattern(bytes, 2)};
    while (!small.is_over()) ASSERT_GT(small.attempt(sender), 0);
  }
  const std::size_t of_first = pipes[0].carried;
  EXPECT_EQ(of_first, 3 * 64 + 8 + kStripeFrom - 1);
  for (std::size_t i = 1; i < kConnections; ++i) EXPECT_EQ(pipes[i].carried, 0U) << i;
  Sending large{.header = pattern(64, 1), .payload = pattern(8 * kStripe, 2)};
  while (!large.is_over()) ASSERT_GT(large.attempt(sender), 0);
  EXPECT_EQ(pipes[0].carried, of_first + 64 + 2 * kStripe);
  for (std::size_t i = 1; i < kConnections; ++i) EXPECT_EQ(pipes[i].carried, 2 * kStripe) << i;
}

TEST(StripedStream, spreads_over_as_many_as_both_ends_are_told_to) {
  Pipes pipes(4);
  StripedStream sender = stream_over(pipes, pipes);
  StripedStream receiver = stream_over(pipes, pipes);
  Receiving receiving(receiver);
  std::size_t before = 0;
  for (const std::size_t used : {1U, 4U, 2U, 9U}) {
    sender.spread_over(used);
    receiver.spread_over(used);
    Sending large{.header = pattern(64, used), .payload = pattern(8 * kStripe, used)};
    while (!large.is_over()) ASSERT_GT(large.attempt(sender), 0);
    EXPECT_EQ(pipes[0].carried - before, 64 + 8 * kStripe / std::min<std::size_t>(used, 4)) << used;
    before = pipes[0].carried;
    std::optional<std::vector<std::byte>> whole;
    for (int turns = 0; !whole && turns < 100; ++turns) whole = receiving.attempt(64, large.payload.size());
    EXPECT_EQ(whole, large.payload) << used;
  }
}

TEST(StripedStream, goes_on_where_there_is_room_while_a_connection_is_full) {
  Pipes pipes(2);
  pipes[0].room = 0;
  StripedStream sender = stream_over(pipes, pipes);
  Sending large{.header = pattern(64, 1), .payload = pattern(8 * kStripe, 2)};
  while (large.attempt(sender) > 0) {
  }
  EXPECT_EQ(pipes[1].carried, 4 * kStripe);
  EXPECT_FALSE(large.is_over());
  pipes[0].room = ~std::size_t{0};
  while (large.attempt(sender) > 0 && !large.is_over()) {
  }
  EXPECT_TRUE(large.is_over());
  EXPECT_EQ(pipes[0].carried, 64 + 4 * kStripe);
}

/// A frame that was forgotten before its first byte went out is not sent.
TEST(StripedStream, keeps_nothing_of_a_message_of_which_nothing_went_out) {
  Pipes pipes(2);
  for (Pipe& pipe : pipes) pipe.room = 0;
  StripedStream sender = stream_over(pipes, pipes);
  {
    Sending forgotten{.header = pattern(64, 1), .payload = pattern(4 * kStripe, 2)};
    EXPECT_EQ(forgotten.attempt(sender), -EAGAIN);
  }
  for (Pipe& pipe : pipes) pipe.room = ~std::size_t{0};
  Sending other{.header = pattern(64, 3), .payload = pattern(100, 4)};
  EXPECT_EQ(other.attempt(sender), 164);
  EXPECT_EQ(pipes[1].carried, 0U);
}

TEST(StripedStream, fails_as_soon_as_one_connection_does) {
  Pipes pipes(3);
  pipes[2].failure = -ECONNRESET;
  StripedStream sender = stream_over(pipes, pipes);
  Sending large{.header = pattern(64, 1), .payload = pattern(6 * kStripe, 2)};
  EXPECT_EQ(large.attempt(sender), -ECONNRESET);
  StripedStream receiver = stream_over(pipes, pipes);
  receiver.expect(6 * kStripe, 0);
  std::vector<std::byte> into(6 * kStripe);
  EXPECT_EQ(receiver.try_receive_some(into), -ECONNRESET);
}

/// A link of rank 0 over connections whose other ends the test holds.
class StripedLink : public ::testing::Test {
 protected:
  static constexpr std::size_t kConnections = 4;
  static constexpr std::size_t kBytes = 3 * kMiB;

  template <class Body>
  void run(Body& body) {
    std::vector<std::unique_ptr<framed::ByteStream>> streams;
    for (Socket& far : far_) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
      streams.push_back(std::make_unique<tcp::SocketStream>(Socket(engine_, Descriptor(ends[0]))));
      far = Socket(engine_, Descriptor(ends[1]));
    }
    host_.expected_peer = 1;
    for (std::size_t window = 0; window < kWindows; ++window)
      host_.bind_own(static_cast<WindowId>(window), kBytes);
    auto whole = [&]() -> Task<> {
      framed::FramedLink link(engine_, std::make_unique<StripedStream>(std::move(streams), kConnections),
                              host_, 0, 1, 0, "tcp");
      TaskScope services;
      services.spawn(link.serve());
      const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), body(link)));
      EXPECT_FALSE(error) << error->what();
      link.shutdown();
      co_await services.join();
    };
    engine_.run(whole());
  }

  /// Runs it until the link fails, by the peer.
  Task<> expect_failure(Task<> moving) {
    CancelScope collective;
    host_.collective = &collective;
    Task<> scoped = with_scope(collective, std::move(moving));
    const auto error = co_await error_of(std::move(scoped));
    host_.collective = nullptr;
    EXPECT_EQ(kind_of(error), "LinkFault");
    if (!error) co_return;
    EXPECT_EQ(error->culprit(), Rank{1});
    EXPECT_THAT(std::string(error->message()), HasSubstr("rank 1"));
    EXPECT_EQ(host_.failures.size(), 1U);
  }

  [[nodiscard]] FrameBytes header_of_all() const {
    FrameHeader header;
    header.type = FrameType::data;
    header.source = 1;
    header.sequence = host_.state.sequence;
    header.signature = host_.state.signature;
    header.bytes = kBytes;
    return framed::encode(header);
  }

  Engine engine_;
  FakeHost host_;
  std::array<Socket, kConnections> far_;
};

TEST_F(StripedLink, names_the_peer_when_a_connection_breaks_that_it_receives_on) {
  auto body = [&](Link& link) -> Task<> {
    const FrameBytes header = header_of_all();
    const std::vector<std::byte> stripe(kStripe);
    const auto send_one_stripe = [&]() -> Task<> {
      co_await far_[0].send(header, stripe);
      co_await engine_.sleep_for(std::chrono::milliseconds(2));
      far_[1].shutdown();
    };
    TaskScope sending;
    sending.spawn(send_one_stripe());
    co_await expect_failure(recv(link, in_recv(kBytes)));
    co_await sending.join();
  };
  run(body);
}

TEST_F(StripedLink, names_the_peer_when_a_connection_breaks_that_it_sends_on) {
  auto body = [&](Link& link) -> Task<> {
    far_[3] = Socket();
    co_await expect_failure(send(link, in_send(kBytes)));
  };
  run(body);
}

TEST_F(StripedLink, names_the_peer_that_closes_between_messages) {
  auto body = [&](Link& link) -> Task<> {
    far_[0].shutdown();
    co_await expect_failure(recv(link, in_recv(kBytes)));
  };
  run(body);
}

/// More bytes than the local schedule has for them are refused before one is received.
TEST_F(StripedLink, is_told_of_no_other_size_than_it_expects) {
  auto body = [&](Link& link) -> Task<> {
    CancelScope collective;
    host_.collective = &collective;
    const FrameBytes header = header_of_all();
    co_await far_[0].send(header);
    const auto error = co_await error_of(with_scope(collective, recv(link, in_recv(kStripeFrom))));
    host_.collective = nullptr;
    EXPECT_EQ(kind_of(error), "ProtocolError");
    EXPECT_EQ(error->culprit(), Rank{1});
  };
  run(body);
}

TEST_F(StripedLink, ends_at_once_when_what_it_moves_is_cancelled) {
  auto body = [&](Link& link) -> Task<> {
    const auto sending =
        co_await error_of(with_deadline(std::chrono::milliseconds(10), send(link, in_send(kBytes))));
    EXPECT_EQ(kind_of(sending), "DeadlineExceeded");
    for (Socket& far : far_) {
      std::vector<std::byte> come(kBytes);
      int result = 1;
      while (result > 0) result = co_await far.receive_some(come);
      EXPECT_EQ(result, 0) << "the peer hears the end on each connection";
    }
  };
  run(body);
  EXPECT_EQ(host_.told_of_giving_up, std::vector<Rank>{1});
}

}  // namespace
}  // namespace cohort::test::striped_stream_test
