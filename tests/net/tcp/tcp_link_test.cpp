// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/tcp_link.h>

#include <cohort/tests/net/link_end.h>

#include <gmock/gmock.h>

#include <span>
#include <string_view>

namespace cohort::test::tcp_link_test {
namespace {

using framed::FrameBytes;
using framed::FrameHeader;
using framed::FrameType;
using tcp::TcpLink;
using ::testing::HasSubstr;

constexpr Lane kLane = 2;

/// Two ends of a TCP connection over loopback.
Task<std::pair<Socket, Socket>> connect(Engine& engine) {
  Listener listener(engine, Address::parse("127.0.0.1:0"));
  Socket one = co_await Socket::connect(engine, listener.local_address());
  Socket other = co_await listener.accept();
  std::pair<Socket, Socket> ends(std::move(one), std::move(other));
  co_return ends;
}

/// What one send takes to a rank on this host or another one, which may be a container of this machine, where
/// both have the only core.
std::size_t piece_bytes(bool is_on_this_host, bool is_on_this_machine) {
  Membership job;
  job.peers.resize(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    job.peers[rank].rank = rank;
    job.peers[rank].engine = rank;
    job.peers[rank].cores.set(0);
  }
  if (!is_on_this_host) job.peers[1].host_id.front() = std::byte{1};
  if (!is_on_this_machine) job.peers[1].machine_id = 1;
  return tcp::piece_bytes_to(job, 1);
}

TEST(TcpLinkPieces, are_small_to_another_host_where_each_rank_has_a_core) {
  EXPECT_EQ(piece_bytes(false, false), tuning::sockets::kPieceBetweenHosts);
  EXPECT_EQ(piece_bytes(false, true), tuning::sockets::kPiece) << "two ranks share a core";
  EXPECT_EQ(piece_bytes(true, true), tuning::sockets::kPiece);
  EXPECT_LT(tuning::sockets::kPieceBetweenHosts, tuning::sockets::kPiece);
}

/// A link of rank 0 to a rank 1 that the test plays itself, byte by byte.
class TcpLinkToRawPeer : public ::testing::Test {
 protected:
  static constexpr std::size_t kWindowBytes = 4096;

  /// Runs body(link, peer) and ends the link. The collective of the body is cancelled when the link fails.
  template <class Body>
  void run(Body& body) {
    auto whole = [&]() -> Task<> {
      std::pair<Socket, Socket> ends = co_await connect(engine_);
      TcpLink link(engine_, std::move(ends.first), host_, 0, 1, kLane, tuning::sockets::kPiece);
      TaskScope services;
      services.spawn(link.serve());
      const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), body(link, ends.second)));
      EXPECT_FALSE(error) << error->what();
      link.shutdown();
      co_await services.join();
    };
    engine_.run(whole());
  }

  /// Sends these bytes as rank 1 and expects that rank 0's link fails, once.
  template <class Bytes>
  void expect_failure(const Bytes& bytes, ErrorKind kind, std::string_view text) {
    auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
      CancelScope collective;
      host_.collective = &collective;
      TaskScope sending;
      sending.spawn(peer.send(std::as_bytes(std::span(bytes))));
      const auto error = co_await error_of(with_scope(collective, recv(link, in_recv(100))));
      EXPECT_EQ(kind_of(error), to_string(kind));
      EXPECT_THAT(std::string(error->message()), HasSubstr(std::string(text)));
      EXPECT_EQ(error->culprit(), 1U);
      sending.cancel();
      co_await sending.join();
      co_await take_turns();
      EXPECT_EQ(host_.failures.size(), 1U);
      host_.collective = nullptr;
    };
    run(body);
  }

  /// As many turns of the loop as a link needs to take what has been sent to it, and more.
  Task<> take_turns() {
    for (int turn = 0; turn < 100; ++turn) co_await engine_.sleep_for(Duration::zero());
  }

  [[nodiscard]] FrameHeader header(FrameType type, std::uint64_t bytes = 0) const {
    FrameHeader header;
    header.type = type;
    header.lane = kLane;
    header.source = 1;
    header.sequence = host_.state.sequence;
    header.signature = host_.state.signature;
    header.window = WindowId::ccl_in;
    header.bytes = bytes;
    return header;
  }

  static void append(std::vector<std::byte>& stream, const FrameHeader& header,
                     std::string_view payload = {}) {
    const FrameBytes bytes = framed::encode(header);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
    const auto more = std::as_bytes(std::span(payload));
    stream.insert(stream.end(), more.begin(), more.end());
  }

  [[nodiscard]] std::string_view text(const Slice& slice) const {
    return {reinterpret_cast<const char*>(host_.state.windows.at(slice)), slice.bytes};
  }

  void SetUp() override {
    host_.expected_peer = 1;
    for (std::size_t window = 0; window < kWindows; ++window)
      host_.bind_own(static_cast<WindowId>(window), kWindowBytes);
  }

  Engine engine_;
  FakeHost host_;
};

TEST_F(TcpLinkToRawPeer, frames_may_come_byte_by_byte) {
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    std::vector<std::byte> stream;
    append(stream, header(FrameType::data, 5), "hello");
    append(stream, header(FrameType::signal));
    append(stream, header(FrameType::put, 3), "put");
    auto dribble = [&]() -> Task<> {
      peer.set_no_delay();
      for (std::size_t i = 0; i < stream.size(); ++i) {
        co_await peer.send(std::span(stream).subspan(i, 1));
        co_await take_turns();
      }
    };
    auto receive = [&]() -> Task<> {
      co_await link.recv(in_recv(5));
      EXPECT_EQ(text(in_recv(5)), "hello");
      co_await link.wait(Signal::Ack);
      co_await link.wait(Signal::Ack);
      EXPECT_EQ(text(in_ccl_in(3)), "put");
    };
    co_await when_all(dribble(), receive());
  };
  run(body);
}

TEST_F(TcpLinkToRawPeer, several_frames_may_come_in_one_segment) {
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    std::vector<std::byte> stream;
    for (int i = 0; i < 3; ++i) append(stream, header(FrameType::data, 5), "hello");
    append(stream, header(FrameType::data));
    for (int i = 0; i < 4; ++i) append(stream, header(FrameType::signal));
    append(stream, header(FrameType::data, 3), "end");
    co_await peer.send(stream);
    for (std::size_t i = 0; i < 3; ++i) {
      co_await link.recv(in_recv(5, i * 8));
      EXPECT_EQ(text(in_recv(5, i * 8)), "hello");
    }
    co_await link.recv(in_recv(0));
    for (int i = 0; i < 4; ++i) co_await link.wait(Signal::Ack);
    co_await link.recv(in_recv(3));
    EXPECT_EQ(text(in_recv(3)), "end");
  };
  run(body);
}

TEST_F(TcpLinkToRawPeer, frames_of_the_next_collective_wait_for_it) {
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    FrameHeader early = header(FrameType::put, 4);
    early.sequence = 2;
    early.signature = {.what = 3, .count = 4};
    std::vector<std::byte> stream;
    append(stream, early, "next");
    FrameHeader early_data = early;
    early_data.type = FrameType::data;
    append(stream, early_data, "data");
    std::memset(host_.state.windows.at(in_ccl_in(4)), '-', 4);
    co_await peer.send(stream);
    co_await take_turns();
    EXPECT_EQ(text(in_ccl_in(4)), "----");
    host_.state.is_running = false;
    link.operation_started();  // nothing runs: nothing happens
    co_await take_turns();
    EXPECT_EQ(text(in_ccl_in(4)), "----");
    host_.state.sequence = 2;
    host_.state.signature = early.signature;
    host_.state.is_running = true;
    link.operation_started();
    co_await link.wait(Signal::Ack);
    EXPECT_EQ(text(in_ccl_in(4)), "next");
    co_await link.recv(in_recv(4));
    EXPECT_EQ(text(in_recv(4)), "data");
  };
  run(body);
  EXPECT_TRUE(host_.failures.empty());
}

TEST_F(TcpLinkToRawPeer, another_signature_is_a_mismatch_told_once) {
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    FrameHeader other = header(FrameType::data, 8);
    other.signature.count = 12;
    std::vector<std::byte> stream;
    append(stream, other, "12345678");
    append(stream, other, "12345678");
    CancelScope collective;
    host_.collective = &collective;
    co_await peer.send(stream);
    const auto error = co_await error_of(with_scope(collective, recv(link, in_recv(8))));
    EXPECT_EQ(kind_of(error), "Mismatch");
    host_.collective = nullptr;
    // The other direction still works, so that the peer learns of it too.
    co_await link.send(in_send(4));
    std::array<std::byte, framed::kFrameBytes + 4> came;
    const bool whole = co_await peer.receive(came);
    EXPECT_TRUE(whole);
  };
  run(body);
  ASSERT_EQ(host_.mismatches.size(), 1U);
  EXPECT_EQ(host_.mismatches[0].first, 1U);
  EXPECT_EQ(host_.mismatches[0].second, (Signature{.what = 7, .count = 12}));
  EXPECT_TRUE(host_.failures.empty());
}

TEST_F(TcpLinkToRawPeer, stale_frame_fails_the_link) {
  host_.state.sequence = 8;
  FrameHeader stale = header(FrameType::signal);
  stale.sequence = 7;
  expect_failure(framed::encode(stale), ErrorKind::ProtocolError, "collective 7 while this rank is at 8");
}

TEST_F(TcpLinkToRawPeer, other_lane_or_rank_fails_the_link) {
  FrameHeader lane = header(FrameType::signal);
  lane.lane = 3;
  expect_failure(framed::encode(lane), ErrorKind::ProtocolError,
                 "a frame of lane 3 came from rank 1 on lane 2");
  host_.failures.clear();
  FrameHeader source = header(FrameType::signal);
  source.source = 5;
  expect_failure(framed::encode(source), ErrorKind::ProtocolError,
                 "a frame of rank 5 came on the link to rank 1");
}

TEST_F(TcpLinkToRawPeer, other_length_than_the_schedule_expects_fails_the_link) {
  expect_failure(framed::encode(header(FrameType::data, 99)), ErrorKind::ProtocolError,
                 "sends 99 bytes where this rank expects 100");
}

TEST_F(TcpLinkToRawPeer, places_outside_a_window_fail_the_link) {
  struct Case {
    FrameType type;
    Slice place;
    std::string_view text;
  };
  const std::size_t top = ~std::size_t{0};
  const Case cases[] = {
      {FrameType::put,
       {WindowId::ccl_in, kWindowBytes - 7, 8},
       "put 8 bytes at 4089 in this rank's window ccl_in, which has 4096"},
      {FrameType::put, {WindowId::recv, top, 2}, "put 2 bytes at 18446744073709551615"},
      {FrameType::put, {WindowId::ccl_out, 8, top}, "put 18446744073709551615 bytes at 8"},
      {FrameType::put, {WindowId::send, 0, 8}, "window send, which peers may not"},
      {FrameType::put, {WindowId::scratch, 0, 8}, "window scratch, which peers may not"},
      {FrameType::get, {WindowId::ccl_in, 1, kWindowBytes}, "get 4096 bytes at 1"},
      {FrameType::get, {WindowId::send, kWindowBytes + 1, 0}, "get 0 bytes at 4097"},
      {FrameType::get, {WindowId::scratch, 0, 8}, "window scratch, which peers may not"},
  };
  for (const Case& wrong : cases) {
    host_.failures.clear();
    FrameHeader frame = header(wrong.type, wrong.place.bytes);
    frame.window = wrong.place.window;
    frame.offset = wrong.place.offset;
    expect_failure(framed::encode(frame), ErrorKind::ProtocolError, wrong.text);
  }
}

TEST_F(TcpLinkToRawPeer, five_signals_without_a_wait_fail_the_link) {
  std::vector<std::byte> stream;
  for (int i = 0; i < 5; ++i) append(stream, header(FrameType::signal));
  expect_failure(stream, ErrorKind::ProtocolError, "posted Ack 5 times without a wait");
}

TEST_F(TcpLinkToRawPeer, signals_left_over_from_a_collective_fail_the_link) {
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    std::vector<std::byte> stream;
    append(stream, header(FrameType::signal));
    append(stream, header(FrameType::data, 1), "x");
    co_await peer.send(stream);
    co_await link.recv(in_recv(1));  // the signal has come before it
    host_.state.sequence = 2;
    link.operation_started();
  };
  run(body);
  ASSERT_EQ(host_.failures.size(), 1U);
  EXPECT_THAT(host_.failures[0].what(), HasSubstr("posted Ack 1 times more"));
}

TEST_F(TcpLinkToRawPeer, reply_that_nobody_asked_for_fails_the_link) {
  expect_failure(framed::encode(header(FrameType::get_reply, 100)), ErrorKind::ProtocolError,
                 "did not ask for");
}

TEST_F(TcpLinkToRawPeer, bytes_that_are_no_frame_fail_the_link) {
  FrameBytes frame = framed::encode(header(FrameType::signal));
  frame[0] = std::byte{'G'};
  expect_failure(frame, ErrorKind::ProtocolError, "magic 0x50435447 where 0x50435443 is expected");
}

TEST_F(TcpLinkToRawPeer, peer_that_disappears_in_the_middle_of_a_frame_is_a_link_fault) {
  for (const std::size_t sent :
       {std::size_t{0}, std::size_t{10}, framed::kFrameBytes, framed::kFrameBytes + 60}) {
    host_.failures.clear();
    auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
      std::vector<std::byte> stream;
      append(stream, header(FrameType::data, 100), std::string(100, 'x'));
      stream.resize(sent);
      CancelScope collective;
      host_.collective = &collective;
      co_await peer.send(stream);
      peer.shutdown();
      const auto error = co_await error_of(with_scope(collective, recv(link, in_recv(100))));
      EXPECT_EQ(kind_of(error), "LinkFault") << sent;
      EXPECT_EQ(error->culprit(), 1U);
      host_.collective = nullptr;
    };
    run(body);
    EXPECT_EQ(host_.failures.size(), 1U) << sent;
  }
}

TEST_F(TcpLinkToRawPeer, cancelled_get_closes_the_link_since_its_reply_is_on_its_way) {
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    CancelScope scope;
    std::array<std::byte, framed::kFrameBytes> request;
    auto gets = [&]() -> Task<> {
      const auto error = co_await error_of(with_scope(scope, get(link, in_ccl_in(8), in_recv(8))));
      EXPECT_EQ(kind_of(error), "Cancelled");
    };
    auto cancels = [&]() -> Task<> {
      const bool came = co_await peer.receive(request);
      EXPECT_TRUE(came);
      scope.cancel();
    };
    co_await when_all(gets(), cancels());
    const FrameHeader asked = framed::decode(request);
    EXPECT_EQ(asked.type, FrameType::get);
    const bool more = co_await peer.receive(request);
    EXPECT_FALSE(more);
  };
  run(body);
  EXPECT_TRUE(host_.failures.empty());
}

TEST_F(TcpLinkToRawPeer, cancelled_while_it_waits_in_line_leaves_the_link_whole) {
  host_.bind_own(WindowId::send, 32 * kMiB);
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    TaskScope first;
    first.spawn(send(link, in_send(32 * kMiB)));
    CancelScope scope;
    auto sends = [&]() -> Task<> {
      const auto error = co_await error_of(with_scope(scope, send(link, in_send(1))));
      EXPECT_EQ(kind_of(error), "Cancelled");
    };
    auto cancels = [&]() -> Task<> {
      co_await take_turns();
      scope.cancel();
    };
    co_await when_all(sends(), cancels());
    std::vector<std::byte> came(framed::kFrameBytes + 32 * kMiB);
    const bool whole = co_await peer.receive(came);
    EXPECT_TRUE(whole);
    co_await first.join();
    co_await link.post(Signal::Ack);
    std::array<std::byte, framed::kFrameBytes> next;
    const bool more = co_await peer.receive(next);
    EXPECT_TRUE(more);
    EXPECT_EQ(framed::decode(next).type, FrameType::signal);
  };
  run(body);
  EXPECT_TRUE(host_.failures.empty());
}

TEST_F(TcpLinkToRawPeer, gets_that_come_together_are_answered_in_order) {
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    std::memcpy(host_.state.windows.at(in_ccl_in(8)), "abcdefgh", 8);
    FrameHeader first = header(FrameType::get, 5);
    FrameHeader second = header(FrameType::get, 3);
    second.offset = 5;
    std::vector<std::byte> stream;
    append(stream, first);
    append(stream, second);
    append(stream, header(FrameType::get, 0));
    co_await peer.send(stream);
    std::array<std::byte, 3 * framed::kFrameBytes + 8> came;
    const bool whole = co_await peer.receive(came);
    EXPECT_TRUE(whole);
    const auto reply = [&](std::size_t at) {
      return framed::decode(std::span<const std::byte, framed::kFrameBytes>(&came[at], framed::kFrameBytes));
    };
    EXPECT_EQ(reply(0).type, FrameType::get_reply);
    EXPECT_EQ(reply(0).bytes, 5U);
    EXPECT_EQ(reply(0).source, 0U);
    EXPECT_EQ(std::memcmp(&came[framed::kFrameBytes], "abcde", 5), 0);
    EXPECT_EQ(reply(framed::kFrameBytes + 5).bytes, 3U);
    EXPECT_EQ(std::memcmp(&came[2 * framed::kFrameBytes + 5], "fgh", 3), 0);
    EXPECT_EQ(reply(2 * framed::kFrameBytes + 8).bytes, 0U);
    co_await link.post(Signal::Ack);
  };
  run(body);
  EXPECT_TRUE(host_.failures.empty());
}

TEST_F(TcpLinkToRawPeer, reading_on_after_the_collective_is_over_fails_the_link) {
  constexpr std::size_t kLarge = 32 * kMiB;
  host_.bind_own(WindowId::ccl_in, kLarge);
  auto body = [&](TcpLink&, Socket& peer) -> Task<> {
    co_await peer.send(framed::encode(header(FrameType::get, kLarge)));
    std::array<std::byte, 1000> some;
    const bool began = co_await peer.receive(some);
    EXPECT_TRUE(began);
    host_.state.is_running = false;
    while (host_.failures.empty()) {
      const bool more = co_await peer.receive(some);
      EXPECT_TRUE(more);
    }
  };
  run(body);
  ASSERT_EQ(host_.failures.size(), 1U);
  EXPECT_THAT(host_.failures[0].what(), HasSubstr("rank 1 still reads this rank's memory for collective 1"));
}

TEST_F(TcpLinkToRawPeer, writing_on_after_the_collective_is_over_fails_the_link_and_touches_nothing) {
  auto body = [&](TcpLink&, Socket& peer) -> Task<> {
    std::vector<std::byte> stream;
    append(stream, header(FrameType::put, 100), std::string(50, 'x'));
    std::memset(host_.state.windows.at(in_ccl_in(100)), '-', 100);
    co_await peer.send(stream);
    while (text(in_ccl_in(1)) != "x") co_await engine_.sleep_for(Duration::zero());
    host_.state.is_running = false;
    const std::vector<std::byte> rest(50, std::byte{'x'});
    co_await peer.send(rest);
    while (host_.failures.empty()) co_await engine_.sleep_for(Duration::zero());
    EXPECT_EQ(text(in_ccl_in(50, 50)), std::string(50, '-'));
  };
  run(body);
  ASSERT_EQ(host_.failures.size(), 1U);
  EXPECT_THAT(host_.failures[0].what(), HasSubstr("rank 1 still sends 50 bytes of collective 1"));
}

TEST_F(TcpLinkToRawPeer, served_in_a_scope_that_is_cancelled_ends_without_a_report) {
  auto whole = [&]() -> Task<> {
    std::pair<Socket, Socket> ends = co_await connect(engine_);
    TcpLink link(engine_, std::move(ends.first), host_, 0, 1, kLane, tuning::sockets::kPiece);
    TaskScope services;
    services.spawn(link.serve());
    co_await take_turns();
    services.cancel();
    co_await services.join();
    std::array<std::byte, 1> none;
    const bool came = co_await ends.second.receive(none);
    EXPECT_FALSE(came) << "the connection is closed";
  };
  engine_.run(whole());
  EXPECT_TRUE(host_.failures.empty());
}

TEST_F(TcpLinkToRawPeer, sending_to_a_peer_that_is_gone_is_a_link_fault_told_once) {
  host_.bind_own(WindowId::send, 32 * kMiB);
  auto body = [&](TcpLink& link, Socket& peer) -> Task<> {
    CancelScope collective;
    host_.collective = &collective;
    peer.shutdown();
    peer = Socket();
    const auto error = co_await error_of(with_scope(collective, send(link, in_send(32 * kMiB))));
    EXPECT_EQ(kind_of(error), "LinkFault");
    host_.collective = nullptr;
  };
  run(body);
  EXPECT_EQ(host_.failures.size(), 1U);
}

}  // namespace
}  // namespace cohort::test::tcp_link_test
