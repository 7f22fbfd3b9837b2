// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/stream_packets.h>

#include <cohort/net/framed/upgrading_stream.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/net/verbs/verbs_stream.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/fake_verbs.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::framed::stream_packets_test {
namespace {

using test::FakeHost;
using Waiting = PacketHandler::Waiting;
using namespace std::chrono_literals;

constexpr std::size_t kPieceBytes = std::size_t{512} << 10;  // more than a socket holds

constexpr Packet kPiece = {.kind = Packet::Kind::piece, .id = 3, .bytes = kPieceBytes};
Packet message_of(std::size_t bytes) { return {.kind = Packet::Kind::message, .tag = 5, .bytes = bytes}; }

/// Takes nothing by itself; counts.
struct CountingHandler final : PacketHandler {
  void packets_came(Rank /*from*/) noexcept override {
    ++looks;
    if (on_packets) on_packets();
  }
  Waiting waiting_for(Rank /*from*/) const noexcept override { return waiting; }
  void room_came(Rank /*to*/) noexcept override { ++rooms; }

  Waiting waiting = Waiting::nobody;
  std::function<void()> on_packets;
  int looks = 0;
  int rooms = 0;
};

/// Two ends of a connection over a library that is made up.
struct VerbsPair {
  explicit VerbsPair(Engine& engine) {
    ends[0] = std::make_unique<verbs::VerbsStream>(engine, device, 1, verbs::LargePieces::copied);
    ends[1] = std::make_unique<verbs::VerbsStream>(engine, device, 0);
    ends[0]->connect(ends[1]->end_point());
    ends[1]->connect(ends[0]->end_point());
  }

  const verbs::Settings settings{};
  test::FakeVerbs fake{{test::FakeDevice{.gids = {test::FakeVerbs::ipv4(0)}}}};
  verbs::Device device{fake.library(), *verbs::choose_port(fake.library(), settings).port, settings};
  std::array<std::unique_ptr<verbs::VerbsStream>, 2> ends;
};

/// Rank 0 sends packets, rank 1 receives them, by TCP or by RDMA.
class StreamPacketsTest : public ::testing::TestWithParam<const char*> {
 protected:
  StreamPacketsTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_.data()), 0);
    sender_host_.expected_peer = 1;
    receiver_host_.expected_peer = 0;
    if (std::string_view(GetParam()) == "tcp") return;
    verbs_.emplace(engine_);
    services_.spawn(verbs_->device.watch_completions(engine_));
  }
  ~StreamPacketsTest() override {
    auto end = [this]() -> Task<> {
      services_.cancel(Error(ErrorKind::Cancelled, "the test is over"));
      co_await services_.join();
    };
    if (sender_) sender_->shutdown();
    if (receiver_) receiver_->shutdown();
    engine_.run(end());
  }

  void make_sender() { sender_ = make(sender_host_, sender_handler_, 0, 1, false); }
  void make_receiver(bool is_on_this_engine = false, std::unique_ptr<BulkStream> bulk = nullptr) {
    receiver_ = make(receiver_host_, receiver_handler_, 1, 0, is_on_this_engine, std::move(bulk));
  }
  std::unique_ptr<StreamPackets> make(FakeHost& host, PacketHandler& handler, Rank own, Rank peer,
                                      bool is_on_this_engine, std::unique_ptr<BulkStream> bulk = nullptr) {
    const StreamPackets::Use use{.engine = engine_,
                                 .host = host,
                                 .handler = handler,
                                 .services = services_,
                                 .own = own,
                                 .peer = peer,
                                 .is_on_this_engine = is_on_this_engine,
                                 .looked_at = looked_at_};
    auto stream = [this, own] { return verbs_ ? open_upgraded(own) : open(ends_[own]); };
    auto none = [this] { return never(); };
    if (own == 0) return std::make_unique<StreamPackets>(use, stream, none, std::move(bulk));
    return std::make_unique<StreamPackets>(use, none, stream, std::move(bulk));
  }
  Task<std::unique_ptr<ByteStream>> open(int descriptor) {
    co_return std::make_unique<tcp::SocketStream>(Socket(engine_, Descriptor(descriptor)));
  }
  Task<std::unique_ptr<ByteStream>> open_upgraded(Rank own) {
    auto first = co_await open(ends_[own]);
    auto second = [this, own] { return take(own); };
    if (own == 0) co_return std::make_unique<UpgradingSender>(std::move(first), second);
    co_return std::make_unique<UpgradingReceiver>(std::move(first), second);
  }
  Task<std::unique_ptr<ByteStream>> take(Rank own) {
    if (is_late_) co_await is_there_[own].wait();
    co_return std::move(verbs_->ends[own]);
  }
  /// As of a sender that is not one of packets.
  void close_sender() {
    ::close(ends_[0]);
    if (verbs_) verbs_->ends[0]->shutdown();
  }
  Task<std::unique_ptr<ByteStream>> never() {
    co_await engine_.sleep_until(kNever);
    co_return nullptr;
  }
  Task<> until_sent(Packet packet, const std::byte* payload) {
    while (!sender_->try_send(packet, payload)) co_await engine_.sleep_for(100us);
  }
  Task<> take_next(std::vector<std::byte>& into) {
    Packet packet;
    while (!receiver_->peek(packet)) co_await engine_.sleep_for(100us);
    into.resize(packet.payload_bytes() + 1);
    while (!receiver_->take(into.data())) co_await engine_.sleep_for(100us);
    into.pop_back();
  }
  /// After which the loop looks, as soon as somebody waits.
  Task<> receive_first() {
    receiver_handler_.waiting = Waiting::for_this_rank;
    const std::byte payload{1};
    co_await until_sent(message_of(1), &payload);
    while (receiver_handler_.looks == 0) co_await engine_.let_others_run();
    std::vector<std::byte> taken;
    co_await take_next(taken);
    receiver_handler_.waiting = Waiting::nobody;
  }
  void run(Task<> body) { engine_.run(with_deadline(60s, std::move(body))); }

  Engine engine_;
  std::array<int, 2> ends_{};
  std::optional<VerbsPair> verbs_;
  bool is_late_ = false;
  std::array<Notify, 2> is_there_;  ///< if it is late
  FakeHost sender_host_;
  FakeHost receiver_host_;
  unsigned looked_at_ = 0;
  CountingHandler sender_handler_;
  CountingHandler receiver_handler_;
  TaskScope services_;
  std::unique_ptr<StreamPackets> sender_;
  std::unique_ptr<StreamPackets> receiver_;
};

class StreamPacketsByTcp : public StreamPacketsTest {};
class StreamPacketsByRdma : public StreamPacketsTest {};

TEST_P(StreamPacketsTest, a_piece_is_sent_from_where_it_lies) {
  make_sender();
  make_receiver();
  const std::vector<std::byte> data(kPieceBytes, std::byte{7});
  auto body = [&]() -> Task<> {
    co_await until_sent(kPiece, data.data());
    EXPECT_TRUE(sender_->borrows_from(data));
    EXPECT_FALSE(sender_->borrows_from(std::span(data).first(1)));
    EXPECT_FALSE(sender_->try_send(message_of(0), nullptr)) << "it would overtake the rest of the piece";
    const int rooms = sender_handler_.rooms;
    std::vector<std::byte> taken;
    co_await take_next(taken);
    EXPECT_EQ(taken, data);
    while (sender_handler_.rooms == rooms) co_await engine_.sleep_for(100us);
    EXPECT_FALSE(sender_->borrows_from(data));
    EXPECT_TRUE(sender_->try_send(message_of(0), nullptr));
  };
  run(body());
}

TEST_P(StreamPacketsTest, a_piece_whose_owner_wants_its_memory_back_is_kept) {
  make_sender();
  make_receiver();
  std::vector<std::byte> data(kPieceBytes, std::byte{7});
  auto body = [&]() -> Task<> {
    co_await until_sent(kPiece, data.data());
    sender_->give_back(data);
    EXPECT_FALSE(sender_->borrows_from(data));
    std::ranges::fill(data, std::byte{9});
    std::vector<std::byte> taken;
    co_await take_next(taken);
    EXPECT_EQ(taken, std::vector<std::byte>(kPieceBytes, std::byte{7}));
  };
  run(body());
}

TEST_P(StreamPacketsTest, a_piece_that_is_not_sent_when_the_channel_ends_is_told) {
  make_sender();
  const std::vector<std::byte> data(kPieceBytes);
  auto body = [&]() -> Task<> {
    EXPECT_FALSE(sender_->has_room()) << "there is no stream yet";
    co_await until_sent(message_of(1), data.data());
    EXPECT_TRUE(sender_->has_room());
    EXPECT_TRUE(sender_->try_send(kPiece, data.data()));
    EXPECT_FALSE(sender_->has_room());
    EXPECT_FALSE(sender_->has_dropped_a_piece());
    sender_->shutdown();
    EXPECT_FALSE(sender_->borrows_from(data));
    EXPECT_TRUE(sender_->has_dropped_a_piece());
  };
  run(body());
  ::close(ends_[1]);
}

TEST_P(StreamPacketsTest, a_message_that_finds_no_room_is_kept_at_once) {
  make_sender();
  make_receiver();
  constexpr int kMessages = 8;  // together more than a socket holds
  auto send = [&]() -> Task<> {
    for (int i = 0; i < kMessages; ++i) {
      std::vector<std::byte> data(std::size_t{64} << 10, static_cast<std::byte>(i));
      co_await until_sent(message_of(data.size()), data.data());
      EXPECT_FALSE(sender_->borrows_from(data));
      std::ranges::fill(data, std::byte{99});
    }
  };
  auto receive = [&]() -> Task<> {
    co_await engine_.sleep_for(1ms);
    for (int i = 0; i < kMessages; ++i) {
      std::vector<std::byte> taken;
      co_await take_next(taken);
      EXPECT_EQ(taken, std::vector<std::byte>(std::size_t{64} << 10, static_cast<std::byte>(i)));
    }
  };
  auto body = [&]() -> Task<> { co_await when_all(send(), receive()); };
  run(body());
}

/// What the loop looks for by itself the kernel need not tell. No sleep: the loop would leave it to the
/// kernel.
TEST_P(StreamPacketsByTcp, the_loop_looks_for_packets_while_somebody_waits_for_them) {
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    co_await receive_first();
    const int told = receiver_handler_.looks;
    for (int turn = 0; turn < 100; ++turn) co_await engine_.let_others_run();
    EXPECT_EQ(receiver_handler_.looks, told) << "nobody waits";
    receiver_handler_.waiting = Waiting::for_this_rank;
    for (int turn = 0; turn < 100; ++turn) co_await engine_.let_others_run();
    EXPECT_GE(receiver_handler_.looks, told + 50);
    co_await engine_.sleep_for(20ms);  // the loop can sleep all the same, and is woken
    const int looks = receiver_handler_.looks;
    const std::byte payload{1};
    co_await until_sent(message_of(1), &payload);
    while (receiver_handler_.looks == looks) co_await engine_.sleep_for(100us);
  };
  run(body());
}

TEST_P(StreamPacketsByTcp, for_whatever_rank_may_say_the_kernel_tells_at_once) {
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    co_await receive_first();
    receiver_handler_.waiting = Waiting::for_anybody;
    for (int turn = 0; turn < 100; ++turn) co_await engine_.let_others_run();
    const int told = receiver_handler_.looks;
    const std::byte payload{1};
    co_await until_sent(message_of(1), &payload);
    // Fewer turns than without a packet for nobody, after which the kernel is asked, too.
    for (int turn = 0; turn < 100; ++turn) co_await engine_.let_others_run();
    EXPECT_GT(receiver_handler_.looks, told);
  };
  run(body());
}

/// Whoever waits, and the handler is asked for what has come, and for nothing else.
TEST_P(StreamPacketsByRdma, the_loop_finds_packets_and_can_sleep_meanwhile) {
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    co_await receive_first();
    for (const Waiting waiting : {Waiting::nobody, Waiting::for_anybody, Waiting::for_this_rank}) {
      receiver_handler_.waiting = waiting;
      const int looks = receiver_handler_.looks;
      for (int turn = 0; turn < 100; ++turn) co_await engine_.let_others_run();
      co_await engine_.sleep_for(20ms);
      EXPECT_EQ(receiver_handler_.looks, looks) << "nothing has come";
      (void)engine_.is_turn_over();  // from now on it is timed
      const TimePoint began = engine_.now();
      while (engine_.now() < began + 100us) continue;
      EXPECT_EQ(engine_.is_turn_over(), waiting != Waiting::nobody) << "what runs gives way to who waits";
      const std::byte payload{1};
      EXPECT_TRUE(sender_->try_send(message_of(1), &payload));
      std::vector<std::byte> taken;
      while (receiver_handler_.looks == looks) co_await engine_.let_others_run();
      co_await take_next(taken);
    }
  };
  run(body());
}

/// Looks by TCP that found nothing, and then one in place that found the end of TCP.
TEST_P(StreamPacketsByRdma, the_loop_finds_packets_whoever_has_gone_over) {
  is_late_ = true;
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    co_await receive_first();
    receiver_handler_.waiting = Waiting::for_this_rank;
    for (int turn = 0; turn < 20; ++turn) co_await engine_.let_others_run();
    receiver_handler_.waiting = Waiting::nobody;
    for (Notify& end : is_there_) end.post();
    Packet packet;
    for (int turn = 0; turn < 20; ++turn) {
      co_await engine_.let_others_run();
      EXPECT_FALSE(receiver_->peek(packet));
    }
    const int sends = verbs_->fake.sends_posted;
    const int looks = receiver_handler_.looks;
    const std::byte payload{1};
    EXPECT_TRUE(sender_->try_send(message_of(1), &payload));
    EXPECT_EQ(verbs_->fake.sends_posted, sends + 1) << "it goes by RDMA";
    for (int turn = 0; turn < 20; ++turn) co_await engine_.let_others_run();
    EXPECT_GT(receiver_handler_.looks, looks);
  };
  run(body());
}

/// Nothing that is sent afterwards would say so, and the send was over.
TEST_P(StreamPacketsByRdma, a_connection_that_breaks_while_nothing_is_sent_is_told) {
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    co_await receive_first();
    verbs_->fake.status_of = [](const ibv_send_wr&) { return IBV_WC_RETRY_EXC_ERR; };
    const std::byte payload{1};
    EXPECT_TRUE(sender_->try_send(message_of(1), &payload));
    while (sender_host_.failures.empty()) co_await engine_.sleep_for(100us);
    EXPECT_THAT(sender_host_.failures[0].what(),
                ::testing::HasSubstr("RDMA WRITE of 33 bytes for rank 1 failed"));
    co_await engine_.sleep_for(5ms);
    EXPECT_EQ(sender_host_.failures.size(), 1U) << "it is told once";
  };
  run(body());
}

/// Of which the kernel knows nothing any more.
TEST_P(StreamPacketsTest, what_came_with_a_packet_that_was_taken_in_place_is_looked_at) {
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    co_await receive_first();
    const std::array<std::byte, 2> payload = {std::byte{1}, std::byte{2}};
    EXPECT_TRUE(sender_->try_send(message_of(1), payload.data()));
    EXPECT_TRUE(sender_->try_send(message_of(1), &payload[1]));
    std::byte in_place{};
    Packet packet;
    EXPECT_TRUE(receiver_->spin() && receiver_->peek(packet) && receiver_->take(&in_place));
    std::byte next{};
    receiver_handler_.on_packets = [&] {
      if (!receiver_->peek(packet)) return;
      EXPECT_TRUE(receiver_->take(&next));
    };
    for (int turn = 0; turn < 100; ++turn) co_await engine_.let_others_run();
    EXPECT_EQ(next, std::byte{2});
    co_await engine_.sleep_for(1ms);  // which it can, as nothing is left
  };
  run(body());
}

/// As one that has failed: what it does not take is no reason to look without an end.
TEST_P(StreamPacketsTest, what_the_handler_refuses_is_not_offered_in_every_turn) {
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    co_await receive_first();
    const std::byte payload{1};
    EXPECT_TRUE(sender_->try_send(message_of(1), &payload));
    EXPECT_TRUE(receiver_->spin());
    const int told = receiver_handler_.looks;
    for (int turn = 0; turn < 100; ++turn) co_await engine_.let_others_run();
    EXPECT_LE(receiver_handler_.looks, told + 2);
  };
  run(body());
}

TEST_P(StreamPacketsTest, looking_in_place_finds_a_packet_before_the_loop_does) {
  make_sender();
  make_receiver();
  auto body = [&]() -> Task<> {
    const std::vector<std::byte> data(std::size_t{40} << 10, std::byte{4});
    co_await until_sent(message_of(3), data.data());
    while (receiver_handler_.looks == 0) co_await engine_.sleep_for(100us);
    EXPECT_TRUE(receiver_->spin());
    EXPECT_TRUE(receiver_->is_whole());
    std::vector<std::byte> taken;
    co_await take_next(taken);
    EXPECT_FALSE(receiver_->spin());
    EXPECT_TRUE(sender_->try_send(message_of(data.size()), data.data()));
    EXPECT_TRUE(receiver_->spin());
    EXPECT_FALSE(receiver_->is_whole()) << "only the beginning comes with the header";
    co_await take_next(taken);
    EXPECT_EQ(taken, data);
  };
  run(body());
}

TEST_P(StreamPacketsTest, a_peer_on_this_engine_is_not_looked_for_in_place) {
  make_sender();
  make_receiver(true);
  auto body = [&]() -> Task<> {
    const std::byte payload{1};
    co_await until_sent(message_of(1), &payload);
    while (receiver_handler_.looks == 0) co_await engine_.sleep_for(100us);
    EXPECT_FALSE(receiver_->spin());
  };
  run(body());
}

/// Of a peer that has sent everything and left, the end of its packets may be read before its last bytes.
TEST_P(StreamPacketsTest, what_is_moved_in_bulk_outlives_the_connection_of_the_packets) {
  constexpr std::size_t kBytes = 100'000;
  constexpr std::size_t kLate = 1000;
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
  const Descriptor far_end(ends[0]);
  auto open_bulk = [&] { return open(ends[1]); };
  make_receiver(false, std::make_unique<BulkStream>(engine_, receiver_host_, 1, 0, open_bulk));
  receiver_handler_.on_packets = [this] {
    Packet packet;
    EXPECT_FALSE(receiver_->peek(packet));
  };
  const std::vector<std::byte> sent(kBytes, std::byte{7});
  auto send = [&](std::size_t bytes) {
    EXPECT_EQ(::send(far_end.number(), sent.data(), bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  };
  std::vector<std::byte> received(kBytes);
  auto receive = [&]() -> Task<> { co_await receiver_->bulk_for(kBytes)->receive(received); };
  auto leave = [&]() -> Task<> {
    send(kBytes - kLate);
    close_sender();
    while (receiver_host_.failures.empty()) co_await engine_.sleep_for(100us);
    send(kLate);
  };
  auto body = [&]() -> Task<> { co_await when_all(receive(), leave()); };
  run(body());
  EXPECT_EQ(received, sent);
}

/// Raw headers: little-endian, kind at 4, bytes at 16.
TEST_P(StreamPacketsTest, more_than_a_packet_of_its_kind_holds_is_refused) {
  make_receiver();
  std::array<std::byte, 32> header{};
  std::memcpy(header.data(), "CTCL", 4);
  header[4] = static_cast<std::byte>(Packet::Kind::message);
  const std::uint64_t bytes = kPieceBytes;  // which a piece may have
  std::memcpy(header.data() + 16, &bytes, sizeof bytes);
  ASSERT_EQ(::send(ends_[0], header.data(), header.size(), MSG_NOSIGNAL), 32);
  auto body = [&]() -> Task<> {
    Packet packet;
    while (receiver_host_.failures.empty()) {
      EXPECT_FALSE(receiver_->peek(packet));
      co_await engine_.sleep_for(100us);
    }
  };
  run(body());
  EXPECT_EQ(receiver_host_.failures[0].kind(), ErrorKind::ProtocolError);
  ::close(ends_[0]);
}

INSTANTIATE_TEST_SUITE_P(Over, StreamPacketsTest, ::testing::Values("tcp", "rdma"),
                         [](const auto& test) { return std::string(test.param); });
INSTANTIATE_TEST_SUITE_P(Over, StreamPacketsByTcp, ::testing::Values("tcp"));
INSTANTIATE_TEST_SUITE_P(Over, StreamPacketsByRdma, ::testing::Values("rdma"));

}  // namespace
}  // namespace cohort::framed::stream_packets_test
