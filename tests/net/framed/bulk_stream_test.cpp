// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/bulk_stream.h>

#include <cohort/engine/when_all.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <memory>
#include <vector>

namespace cohort::framed::bulk_stream_test {
namespace {

using test::error_of;
using test::FakeHost;
using test::kind_of;

/// Its two ends, over a connection that is there when it is asked for.
class BulkStreamTest : public ::testing::Test {
 protected:
  BulkStreamTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    near_ = make(near_host_, 0, 1, Descriptor(ends[0]));
    far_ = make(far_host_, 1, 0, Descriptor(ends[1]));
  }
  ~BulkStreamTest() override {
    near_->shutdown();
    far_->shutdown();
  }
  std::unique_ptr<BulkStream> make(FakeHost& host, Rank own, Rank peer, Descriptor descriptor) {
    host.expected_peer = peer;
    auto kept = std::make_shared<Descriptor>(std::move(descriptor));
    return std::make_unique<BulkStream>(engine_, host, own, peer, [this, kept] { return open(*kept); });
  }
  Task<std::unique_ptr<ByteStream>> open(Descriptor& descriptor) {
    EXPECT_TRUE(descriptor.is_open()) << "a stream is made once";
    is_made_ = true;
    co_return std::make_unique<tcp::SocketStream>(Socket(engine_, std::move(descriptor)));
  }
  /// Of several in each direction, one after the other.
  static Task<> send(BulkStream& stream, unsigned seed, std::size_t bytes) {
    const std::vector<std::byte> data(bytes, static_cast<std::byte>(seed));
    co_await stream.send(data);
  }
  static Task<> expect(BulkStream& stream, unsigned seed, std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    co_await stream.receive(data);
    EXPECT_EQ(data, std::vector<std::byte>(bytes, static_cast<std::byte>(seed)));
  }

  Engine engine_;
  bool is_made_ = false;  ///< either end's
  FakeHost near_host_;
  FakeHost far_host_;
  std::unique_ptr<BulkStream> near_;
  std::unique_ptr<BulkStream> far_;
};

TEST_F(BulkStreamTest, moves_what_is_large_in_both_directions_at_once) {
  constexpr std::size_t kBytes = 5'000'001;  // more than a socket holds
  auto one_end = [](BulkStream& stream, unsigned own, unsigned theirs) -> Task<> {
    for (unsigned i = 0; i < 3; ++i)
      co_await when_all(send(stream, own + i, kBytes), expect(stream, theirs + i, kBytes));
  };
  auto both = [&]() -> Task<> { co_await when_all(one_end(*near_, 1, 11), one_end(*far_, 11, 1)); };
  engine_.run(with_deadline(std::chrono::seconds(60), both()));
  EXPECT_TRUE(near_host_.failures.empty());
  EXPECT_TRUE(far_host_.failures.empty());
}

/// Ends by the cause that the owner is told.
Task<> expect_failure(Task<> moving, FakeHost& host, ErrorKind kind) {
  CancelScope scope;
  host.collective = &scope;
  Task<> scoped = with_scope(scope, std::move(moving));
  const auto error = co_await error_of(std::move(scoped));
  host.collective = nullptr;
  EXPECT_EQ(error ? error->kind() : ErrorKind::Internal, kind);
}

TEST_F(BulkStreamTest, that_this_rank_shuts_down_is_nobodys_failure_here_and_the_peers_to_tell_later) {
  CancelScope here;
  auto receive = [&]() -> Task<> {
    Task<> receiving = with_scope(here, expect(*near_, 0, 100));
    const auto error = co_await error_of(std::move(receiving));
    EXPECT_EQ(kind_of(error), "Cancelled");
  };
  auto shut_down = [&]() -> Task<> {
    while (!is_made_) co_await engine_.sleep_for(std::chrono::milliseconds(1));
    near_->shutdown();
    co_await expect_failure(expect(*far_, 0, 100), far_host_, ErrorKind::LinkFault);
    here.cancel(Error(ErrorKind::Cancelled, "the other end has told"));
  };
  auto both = [&]() -> Task<> { co_await when_all(receive(), shut_down()); };
  engine_.run(with_deadline(std::chrono::seconds(60), both()));
  EXPECT_TRUE(near_host_.failures.empty());
  EXPECT_FALSE(near_->is_broken());
  EXPECT_TRUE(far_->is_broken());
  ASSERT_EQ(far_host_.failures.size(), 1U);
  EXPECT_EQ(far_host_.failures[0].culprit(), Rank{0});
}

/// So that its cause, and not that the connection ended, is what all ranks hear.
TEST_F(BulkStreamTest, that_the_peer_gives_up_is_not_reported_before_it_can_have_said_why) {
  auto give_up = [&]() -> Task<> {
    const auto error =
        co_await error_of(with_deadline(std::chrono::milliseconds(20), expect(*near_, 0, 100)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
  };
  auto hear = [&]() -> Task<> {
    const auto error =
        co_await error_of(with_deadline(std::chrono::milliseconds(300), expect(*far_, 0, 100)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
  };
  auto both = [&]() -> Task<> { co_await when_all(give_up(), hear()); };
  engine_.run(both());
  EXPECT_TRUE(near_host_.failures.empty());
  EXPECT_TRUE(far_host_.failures.empty());
}

TEST_F(BulkStreamTest, that_cannot_be_made_is_told_once) {
  FakeHost host;
  host.expected_peer = 1;
  auto refuse = []() -> Task<std::unique_ptr<ByteStream>> {
    throw Error(ErrorKind::ResourceLimit, "no more of them");
    co_return nullptr;
  };
  BulkStream stream(engine_, host, 0, 1, refuse);
  auto move = [&]() -> Task<> { co_await when_all(send(stream, 0, 100), expect(stream, 0, 100)); };
  Task<> failing = expect_failure(move(), host, ErrorKind::ResourceLimit);
  engine_.run(with_deadline(std::chrono::seconds(60), std::move(failing)));
  ASSERT_EQ(host.failures.size(), 1U);
  EXPECT_EQ(host.failures[0].kind(), ErrorKind::ResourceLimit);
  EXPECT_EQ(host.failures[0].culprit(), Rank{0});
}

}  // namespace
}  // namespace cohort::framed::bulk_stream_test
