// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/stream_packets.h>

#include <cohort/net/tcp/socket_stream.h>
#include <cohort/tests/net/link_end.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace cohort::framed::answered_packets_test {
namespace {

using cohort::test::FakeHost;
using ::testing::ElementsAre;
using namespace std::chrono_literals;

struct SilentHandler final : PacketHandler {
  void packets_came(Rank /*from*/) noexcept override {}
  [[nodiscard]] Waiting waiting_for(Rank /*from*/) const noexcept override { return Waiting::nobody; }
  void room_came(Rank /*to*/) noexcept override {}
};

/// Two ranks, each of which may call the other and be called by it.
class AnsweredPackets : public ::testing::Test {
 protected:
  struct End {
    FakeHost host;
    std::array<int, 2> of_call{};  ///< here, and at the other rank
    bool has_called = false;
    Notify was_called;        ///< the other rank
    Notify may_be_through;    ///< with its call
    bool takes_time = false;  ///< to get through
    std::unique_ptr<StreamPackets> packets;
  };

  AnsweredPackets() {
    for (const Rank own : {0U, 1U}) {
      End& end = ends_[own];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, end.of_call.data()), 0);
      end.host.expected_peer = 1 - own;
    }
    for (const Rank own : {0U, 1U}) ends_[own].packets = make(own);
  }
  ~AnsweredPackets() override {
    auto end = [this]() -> Task<> {
      services_.cancel(Error(ErrorKind::Cancelled, "the test is over"));
      co_await services_.join();
    };
    for (End& one : ends_) one.packets->shutdown();
    engine_.run(end());
  }

  std::unique_ptr<StreamPackets> make(Rank own) {
    const StreamPackets::Use use{.engine = engine_,
                                 .host = ends_[own].host,
                                 .handler = handler_,
                                 .services = services_,
                                 .own = own,
                                 .peer = 1 - own,
                                 .is_on_this_engine = true,
                                 .looked_at = looked_at_};
    return std::make_unique<StreamPackets>(
        use, [this, own] { return call(own); }, [this, own] { return wait_for_call(1 - own); }, nullptr);
  }
  Task<std::unique_ptr<ByteStream>> call(Rank own) {
    End& end = ends_[own];
    end.has_called = true;
    end.was_called.post();
    if (end.takes_time) co_await end.may_be_through.wait();
    co_return std::make_unique<tcp::SocketStream>(Socket(engine_, Descriptor(end.of_call[0])));
  }
  Task<std::unique_ptr<ByteStream>> wait_for_call(Rank from) {
    End& end = ends_[from];
    co_await end.was_called.wait();
    co_return std::make_unique<tcp::SocketStream>(Socket(engine_, Descriptor(end.of_call[1])));
  }

  Task<> send(Rank from, int tag, std::size_t bytes = 0) {
    const std::vector<std::byte> data(bytes, static_cast<std::byte>(tag));
    const Packet packet{.kind = Packet::Kind::message, .tag = tag, .bytes = bytes};
    while (!ends_[from].packets->try_send(packet, data.data())) co_await engine_.sleep_for(100us);
  }
  Task<> take(Rank at, std::vector<int>& tags) {
    Packet packet;
    while (!ends_[at].packets->peek(packet)) co_await engine_.sleep_for(100us);
    std::vector<std::byte> data(packet.payload_bytes() + 1);
    while (!ends_[at].packets->take(data.data())) co_await engine_.sleep_for(100us);
    tags.push_back(packet.tag);
  }
  void run(Task<> body) { engine_.run(with_deadline(60s, std::move(body))); }
  void expect_no_failure() {
    for (const End& end : ends_) EXPECT_TRUE(end.host.failures.empty()) << end.host.failures[0].what();
  }

  Engine engine_;
  SilentHandler handler_;
  unsigned looked_at_ = 0;
  TaskScope services_;
  std::array<End, 2> ends_;
};

TEST_F(AnsweredPackets, who_was_called_answers_on_the_callers_connection) {
  auto body = [this]() -> Task<> {
    std::vector<int> there;
    std::vector<int> back;
    for (int i = 0; i < 3; ++i) {
      co_await send(1, i, 100);
      co_await take(0, there);
      co_await send(0, 10 + i, 100);
      co_await take(1, back);
    }
    EXPECT_THAT(there, ElementsAre(0, 1, 2));
    EXPECT_THAT(back, ElementsAre(10, 11, 12));
  };
  run(body());
  EXPECT_FALSE(ends_[0].has_called);
  expect_no_failure();
  ::close(ends_[0].of_call[0]);
  ::close(ends_[0].of_call[1]);
}

TEST_F(AnsweredPackets, ranks_that_call_each_other_get_each_others_packets_in_order) {
  auto body = [this]() -> Task<> {
    std::array<std::vector<int>, 2> taken;
    auto send_all = [this](Rank from) -> Task<> {
      for (int i = 0; i < 20; ++i) co_await send(from, i, 50'000);
    };
    auto take_all = [this](Rank at, std::vector<int>& into) -> Task<> {
      for (int i = 0; i < 20; ++i) co_await take(at, into);
    };
    co_await when_all(send_all(0), send_all(1), take_all(0, taken[0]), take_all(1, taken[1]));
    for (const std::vector<int>& tags : taken)
      for (int i = 0; i < 20; ++i) EXPECT_EQ(tags[static_cast<std::size_t>(i)], i);
  };
  run(body());
  EXPECT_TRUE(ends_[0].has_called && ends_[1].has_called);
  expect_no_failure();
}

/// Until its own call is through nothing has gone out on that.
TEST_F(AnsweredPackets, the_higher_rank_takes_the_lower_ones_connection_if_it_comes_first) {
  ends_[1].takes_time = true;
  auto body = [this]() -> Task<> {
    std::vector<int> at_lower;
    std::vector<int> at_higher;
    co_await when_all(send(0, 1), send(1, 2), take(0, at_lower), take(1, at_higher));
    EXPECT_THAT(at_lower, ElementsAre(2));
    EXPECT_THAT(at_higher, ElementsAre(1));
    ends_[1].may_be_through.post();
    co_await send(1, 3);
    co_await take(0, at_lower);
    EXPECT_THAT(at_lower, ElementsAre(2, 3));
    pollfd unused{ends_[1].of_call[1], POLLIN, 0};
    EXPECT_EQ(::poll(&unused, 1, 0), 0) << "something came on it";
  };
  run(body());
  expect_no_failure();
}

TEST_F(AnsweredPackets, the_lower_rank_waits_for_its_own_connection_once_it_has_called) {
  ends_[0].takes_time = true;
  auto body = [this]() -> Task<> {
    const Packet packet{.kind = Packet::Kind::message, .tag = 1};
    EXPECT_FALSE(ends_[0].packets->try_send(packet, nullptr));
    std::vector<int> at_lower;
    std::vector<int> at_higher;
    co_await send(1, 2);
    co_await take(0, at_lower);
    EXPECT_FALSE(ends_[0].packets->try_send(packet, nullptr)) << "it has called, and that is not through";
    ends_[0].may_be_through.post();
    co_await send(0, 1);
    co_await take(1, at_higher);
    EXPECT_THAT(at_lower, ElementsAre(2));
    EXPECT_THAT(at_higher, ElementsAre(1));
  };
  run(body());
  expect_no_failure();
}

/// The peer may have ended it before, or a kernel between the two.
TEST_F(AnsweredPackets, the_end_of_a_connection_on_which_nothing_came_is_not_the_peers_end) {
  ends_[0].takes_time = true;
  auto body = [this]() -> Task<> {
    std::vector<int> at_lower;
    std::vector<int> at_higher;
    const Packet packet{.kind = Packet::Kind::message, .tag = 1};
    EXPECT_FALSE(ends_[0].packets->try_send(packet, nullptr)) << "it has called";
    co_await send(1, 2);
    co_await take(0, at_lower);
    EXPECT_EQ(::shutdown(ends_[1].of_call[1], SHUT_WR), 0);
    co_await engine_.sleep_for(1ms);
    ends_[0].may_be_through.post();
    co_await when_all(send(0, 1), take(1, at_higher));
    EXPECT_THAT(at_higher, ElementsAre(1));
  };
  run(body());
  expect_no_failure();
}

TEST_F(AnsweredPackets, the_end_of_both_connections_is) {
  auto body = [this]() -> Task<> {
    std::vector<int> taken;
    co_await when_all(send(0, 1), send(1, 2));
    for (const int descriptor : {ends_[0].of_call[0], ends_[1].of_call[1]}) ::shutdown(descriptor, SHUT_WR);
    Packet packet;
    while (ends_[1].host.failures.empty()) {
      if (ends_[1].packets->peek(packet)) co_await take(1, taken);
      co_await engine_.sleep_for(100us);
    }
    EXPECT_THAT(taken, ElementsAre(1));
    EXPECT_FALSE(ends_[1].packets->has_lost_words());
  };
  run(body());
}

/// A kernel resets a connection whose bytes were not read, and with it what is on its way to the other end.
TEST_F(AnsweredPackets, what_was_not_read_is_dropped_before_the_connection_ends) {
  auto body = [this]() -> Task<> {
    std::vector<int> taken;
    co_await send(0, 1);
    co_await take(1, taken);
    co_await send(0, 2, 1000);
    co_await send(1, 3, 1000);
    ends_[0].packets->shutdown();
    int unread = -1;
    EXPECT_EQ(::ioctl(ends_[0].of_call[0], FIONREAD, &unread), 0);
    EXPECT_EQ(unread, 0);
    co_await take(1, taken);
    EXPECT_THAT(taken, ElementsAre(1, 2));
    Packet packet;
    while (ends_[1].host.failures.empty()) {
      EXPECT_FALSE(ends_[1].packets->peek(packet));
      co_await engine_.sleep_for(100us);
    }
    EXPECT_FALSE(ends_[1].packets->has_lost_words()) << ends_[1].host.failures[0].what();
  };
  run(body());
  ::close(ends_[1].of_call[0]);
  ::close(ends_[1].of_call[1]);
}

TEST_F(AnsweredPackets, leaving_waits_until_the_other_host_has_what_was_sent) {
  auto body = [this]() -> Task<> {
    co_await send(0, 1, 60'000);
    bool is_over = false;
    auto leave = [&]() -> Task<> {
      co_await ends_[0].packets->until_sent();
      is_over = true;
    };
    auto receive = [&]() -> Task<> {
      co_await engine_.sleep_for(20ms);
      EXPECT_FALSE(is_over);  // on a Unix socket what was read is what has come
      std::vector<int> taken;
      co_await take(1, taken);
    };
    co_await when_all(leave(), receive());
  };
  run(body());
  ::close(ends_[1].of_call[0]);
  ::close(ends_[1].of_call[1]);
}

}  // namespace
}  // namespace cohort::framed::answered_packets_test
