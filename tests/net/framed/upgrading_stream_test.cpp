// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/upgrading_stream.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/tcp/socket_stream.h>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cohort::framed::upgrading_stream_test {
namespace {

using namespace std::chrono_literals;
using Stream = std::unique_ptr<ByteStream>;

/// Two ends, on two pairs of sockets. The second one's ends are there when the test gives them.
class UpgradingStreamTest : public ::testing::Test {
 protected:
  struct Second {
    Notify is_there;
    Stream stream;
  };

  UpgradingStreamTest() {
    auto [near, far] = pair();
    sender_.emplace(std::move(near), [this] { return take(near_); });
    receiver_.emplace(std::move(far), [this] { return take(far_); });
    services_.spawn(sender_->serve());
    services_.spawn(receiver_->serve());
  }
  ~UpgradingStreamTest() override {
    auto end = [this]() -> Task<> {
      services_.cancel();
      co_await services_.join();
    };
    engine_.run(end());
  }

  std::array<Stream, 2> pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    return {std::make_unique<tcp::SocketStream>(Socket(engine_, Descriptor(ends[0]))),
            std::make_unique<tcp::SocketStream>(Socket(engine_, Descriptor(ends[1])))};
  }
  static void give(Second& place, Stream stream) {
    place.stream = std::move(stream);
    place.is_there.post();
  }
  static Task<Stream> take(Second& place) {
    co_await place.is_there.wait();
    co_return std::move(place.stream);
  }
  void send(std::string_view text) {
    EXPECT_EQ(sender_->try_send_some(std::as_bytes(std::span(text)), {}), static_cast<int>(text.size()));
  }
  /// What comes at once: text, "nothing", "end" or "error".
  std::string receive() {
    std::array<std::byte, 64> into{};
    const int result = receiver_->try_receive_some(into);
    if (result == -EAGAIN) return "nothing";
    if (result < 0) return "error";
    if (result == 0) return "end";
    return {reinterpret_cast<const char*>(into.data()), static_cast<std::size_t>(result)};
  }
  Task<> few_turns() {
    for (int turn = 0; turn < 5; ++turn) co_await engine_.sleep_for(1ms);
  }
  void run(Task<> body) { engine_.run(with_deadline(60s, std::move(body))); }

  Engine engine_;
  Second near_;
  Second far_;
  std::optional<UpgradingSender> sender_;
  std::optional<UpgradingReceiver> receiver_;
  TaskScope services_;
};

TEST_F(UpgradingStreamTest, what_is_sent_before_and_after_comes_in_order_whatever_is_there_first) {
  auto body = [this]() -> Task<> {
    send("a");
    auto [near, far] = pair();
    give(near_, std::move(near));
    co_await few_turns();
    send("b");
    EXPECT_EQ(receive(), "a");
    EXPECT_EQ(receive(), "nothing") << "the first one has ended, and nobody knows yet whether that was all";
    give(far_, std::move(far));
    co_await receiver_->until_readable();
    EXPECT_EQ(receive(), "b");
    EXPECT_EQ(receive(), "nothing");
    sender_->shutdown();
    EXPECT_EQ(receive(), "end");
  };
  run(body());
}

TEST_F(UpgradingStreamTest, that_the_receiver_has_its_second_end_alone_changes_nothing) {
  auto body = [this]() -> Task<> {
    auto [near, far] = pair();
    give(far_, std::move(far));
    co_await few_turns();
    EXPECT_EQ(near->try_send_some(std::as_bytes(std::span(std::string_view("later"))), {}), 5);
    send("a");
    send("b");
    EXPECT_EQ(receive(), "ab");
    EXPECT_EQ(receive(), "nothing") << "what came by the second one has its turn behind the first";
    give(near_, std::move(near));
    co_await receiver_->until_readable();
    EXPECT_EQ(receive(), "later");
  };
  run(body());
}

TEST_F(UpgradingStreamTest, all_stays_on_the_first_one_where_there_is_no_second) {
  auto body = [this]() -> Task<> {
    give(near_, nullptr);
    give(far_, nullptr);
    co_await few_turns();
    send("a");
    EXPECT_EQ(receive(), "a");
    sender_->shutdown();
    co_await receiver_->until_readable();
    EXPECT_EQ(receive(), "end");
  };
  run(body());
}

/// As by a look in place, while the kernel has been asked to tell.
TEST_F(UpgradingStreamTest, the_first_one_may_end_while_somebody_waits_for_it) {
  auto body = [this]() -> Task<> {
    auto [near, far] = pair();
    give(far_, std::move(far));
    co_await few_turns();
    std::string got;
    auto wait = [&]() -> Task<> {
      while (got.empty()) {
        co_await receiver_->until_readable();
        const std::string came = receive();
        if (came != "nothing") got = came;
      }
    };
    auto look_in_place = [&]() -> Task<> {
      give(near_, std::move(near));
      for (int look = 0; look < 100; ++look) {
        EXPECT_EQ(receive(), "nothing");
        if (look % 10 == 0) co_await engine_.let_others_run();
      }
      send("a");
    };
    co_await when_all(wait(), look_in_place());
    EXPECT_EQ(got, "a");
  };
  run(body());
}

TEST_F(UpgradingStreamTest, who_waits_for_room_on_the_first_one_goes_over_when_there_is_some) {
  auto body = [this]() -> Task<> {
    const std::string block(100'000, 'x');
    std::size_t sent = 0;
    int result = 0;
    while ((result = sender_->try_send_some(std::as_bytes(std::span(block)), {})) > 0)
      sent += static_cast<std::size_t>(result);
    EXPECT_EQ(result, -EAGAIN);
    auto wait = [&]() -> Task<> {
      co_await sender_->until_writable();
      send("last");
    };
    auto go_over = [&]() -> Task<> {
      auto [near, far] = pair();
      give(near_, std::move(near));
      give(far_, std::move(far));
      co_await few_turns();
      std::string got;
      while (!got.ends_with("last")) {
        co_await receiver_->until_readable();
        const std::string came = receive();
        if (came != "nothing") got += came;
      }
      EXPECT_EQ(got.size(), sent + 4);
    };
    co_await when_all(wait(), go_over());
  };
  run(body());
}

TEST_F(UpgradingStreamTest, a_shutdown_ends_who_waits_to_know_whether_there_is_a_second_one) {
  auto body = [this]() -> Task<> {
    sender_->shutdown();
    EXPECT_EQ(receive(), "nothing");
    auto end = [this]() -> Task<> {
      co_await few_turns();
      receiver_->shutdown();
    };
    co_await when_all(receiver_->until_readable(), end());
    EXPECT_EQ(receive(), "end");
  };
  run(body());
}

}  // namespace
}  // namespace cohort::framed::upgrading_stream_test
