// SPDX-License-Identifier: Apache-2.0
// Small messages of send() and recv() over RDMA.
#include <cohort/net/verbs/ring.h>
#include <cohort/tests/net/verbs/verbs_ranks.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace cohort::test::packets_test {
namespace {

using test::error_of;
using test::kind_of;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

/// The kernel's, and how often it was entered to move bytes.
class CountingNetwork final : public Network {
 public:
  explicit CountingNetwork(int& moves) : moves_(moves) {}

  int open(const Address& like) override { return kernel_->open(like); }
  int listen(int socket, const Address& at) override { return kernel_->listen(socket, at); }
  int accept(int socket) override { return kernel_->accept(socket); }
  void own(int socket) noexcept override { kernel_->own(socket); }
  void close(int socket) noexcept override { kernel_->close(socket); }
  int send(int socket, std::span<const std::byte> first,
           std::span<const std::byte> second) noexcept override {
    ++moves_;
    return kernel_->send(socket, first, second);
  }
  int receive(int socket, std::span<std::byte> into) noexcept override {
    ++moves_;
    return kernel_->receive(socket, into);
  }
  int unacknowledged(int socket) noexcept override { return kernel_->unacknowledged(socket); }
  void shutdown(int socket) noexcept override { kernel_->shutdown(socket); }
  void set_no_delay(int socket) noexcept override { kernel_->set_no_delay(socket); }
  void set_buffer_bytes(int socket, std::size_t bytes) noexcept override {
    kernel_->set_buffer_bytes(socket, bytes);
  }
  int peer_credentials(int socket, PeerCredentials& into) override {
    return kernel_->peer_credentials(socket, into);
  }
  int local_address(int socket, Address& into) override { return kernel_->local_address(socket, into); }
  int remote_address(int socket, Address& into) override { return kernel_->remote_address(socket, into); }

 private:
  const std::unique_ptr<Network> kernel_ = make_kernel_network();
  int& moves_;
};

EngineOptions counting(int& moves) {
  EngineOptions options;
  options.network = std::make_unique<CountingNetwork>(moves);
  return options;
}

class VerbsPackets : public VerbsRanks {
 protected:
  using Bytes = std::vector<std::uint8_t>;

  VerbsPackets() : VerbsRanks(counting(moves_)) {}
  ~VerbsPackets() override {
    fake_.most_memory = ~std::size_t{0};
    fake_.locked_memory_limit = ~std::size_t{0};
    fake_.refuses_to_change = 0;
    fake_.status_of = nullptr;
  }

  /// There and back, so many times.
  Task<> exchange(Communicator& comm, std::span<std::uint8_t> data, int times = 1) {
    for (int i = 0; i < times; ++i) {
      if (comm.rank() == 0) co_await comm.send(data, 1);
      co_await comm.recv(data, 1 - comm.rank());
      if (comm.rank() == 1) co_await comm.send(data, 0);
    }
  }
  /// Exchanges until both directions go by RDMA.
  Task<> go_over(Communicator& comm) {
    Bytes is_over(1);
    for (int i = 0; i < 5000 && is_over[0] == 0; ++i) {
      const int before = fake_.sends_posted;
      co_await exchange(comm, is_over);
      if (comm.rank() == 0) {
        is_over[0] = fake_.sends_posted - before >= 2 ? 1 : 0;
        co_await comm.send(is_over, 1, 7);
        co_await engine_.sleep_for(1ms);
      } else {
        co_await comm.recv(is_over, 0, 7);
      }
    }
    EXPECT_EQ(is_over[0], 1) << "they stay on TCP";
  }

  int moves_ = 0;  ///< of bytes, by the kernel
};

/// Declared memory of that size would be lent in a link.
TEST_F(VerbsPackets, go_by_rdma_when_both_ends_are_there_and_then_enter_no_kernel) {
  constexpr int kTimes = 100;
  auto body = [this](Communicator& comm) -> Task<> {
    co_await go_over(comm);
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{64} << 10}) {
      SharedBuffer<std::uint8_t> data = comm.allocate<std::uint8_t>(bytes);
      co_await exchange(comm, data.span());
      const int moves = moves_;
      const int sends = fake_.sends_posted;
      const int reads = fake_.reads;
      co_await exchange(comm, data.span(), kTimes);
      EXPECT_EQ(moves_, moves) << bytes << " bytes";
      EXPECT_GE(fake_.sends_posted - sends, 2 * kTimes - 1);
      EXPECT_EQ(fake_.reads, reads) << "they are lent";
      co_await exchange(comm, data.span());
    }
  };
  run_ranks(body);
}

/// Sent to a rank that receives nothing for long: more than a ring has room for.
TEST_F(VerbsPackets, that_nobody_wants_yet_are_taken_from_the_ring) {
  constexpr std::uint8_t kMessages = 200;
  static_assert(kMessages > verbs::kMostMessages);
  auto body = [this](Communicator& comm) -> Task<> {
    co_await go_over(comm);
    Bytes data(4000);
    if (comm.rank() == 0) {
      for (data[0] = 0; data[0] < kMessages; ++data[0]) co_await comm.send(data, 1, 3);
      co_await comm.send(data, 1, 4);
    } else {
      co_await comm.recv(data, 0, 4);
      for (std::uint8_t i = 0; i < kMessages; ++i) {
        co_await comm.recv(data, 0, 3);
        EXPECT_EQ(data[0], i);
      }
    }
  };
  run_ranks(body);
}

constexpr std::size_t kBytesOfConnection = 2 * verbs::kRegionBytes + verbs::kBounceBytes;

TEST_F(VerbsPackets, take_a_quarter_of_what_may_be_locked_and_stay_on_tcp_beyond) {
  constexpr std::size_t kBothDirections = 2 * kBytesOfConnection;
  fake_.locked_memory_limit = 4 * 2 * kBothDirections;
  auto expect_taken = [this](Communicator& group, std::size_t bytes) -> Task<> {
    const std::size_t before = fake_.registered_bytes;
    Bytes data(8);
    for (int i = 0; i < 50; ++i) {
      co_await exchange(group, data);
      co_await engine_.sleep_for(1ms);
    }
    EXPECT_EQ(fake_.registered_bytes - before, 2 * bytes) << "of both ranks";
  };
  auto body = [&](Communicator& comm) -> Task<> {
    co_await go_over(comm);
    for (int i = 0; i < 2; ++i) {  // what has ended has given its share back
      std::optional<Communicator> first = co_await comm.split(0);
      std::optional<Communicator> second = co_await comm.split(0);
      co_await expect_taken(*first, kBothDirections);
      co_await expect_taken(*second, 0);
      co_await second->close();
      co_await first->close();
    }
  };
  run_ranks(body);
}

TEST_F(VerbsPackets, stay_on_tcp_where_an_end_may_lock_no_memory_and_say_so_once) {
  for (const std::size_t allowed : {std::size_t{0}, kBytesOfConnection}) {
    auto body = [&](Communicator& comm) -> Task<> {
      fake_.most_memory = fake_.registered_bytes + allowed;
      const int refused = fake_.refused_registrations;
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{64} << 10}) {
        Bytes data(bytes, 5);
        co_await exchange(comm, data, 20);
      }
      while (fake_.refused_registrations == refused) co_await engine_.sleep_for(1ms);
      Bytes data(100);
      co_await exchange(comm, data, 20);
    };
    const int sends = fake_.sends_posted;
    ::testing::internal::CaptureStderr();
    run_ranks(body);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(fake_.sends_posted, sends);
    EXPECT_THAT(said, HasSubstr("warn: small messages stay on TCP: no RDMA connection to rank"));
    EXPECT_THAT(said, HasSubstr("ulimit -l unlimited"));
    EXPECT_LE(std::ranges::count(said, '\n'), 2)
        << "once for each rank, and not for each direction: " << said;
    fake_.most_memory = ~std::size_t{0};
  }
}

TEST_F(VerbsPackets, stay_on_tcp_where_queue_pairs_cannot_be_connected) {
  fake_.refuses_to_change = EINVAL;
  const int sends = fake_.sends_posted;
  auto body = [this](Communicator& comm) -> Task<> {
    Bytes data(100);
    for (int i = 0; i < 50; ++i) {
      co_await exchange(comm, data);
      co_await engine_.sleep_for(1ms);
    }
  };
  run_ranks(body);
  EXPECT_EQ(fake_.sends_posted, sends);
}

/// The send was over, and nothing follows that would fail: the receiver would wait until its deadline.
TEST_F(VerbsPackets, that_do_not_arrive_fail_both_ends_with_the_request_and_its_status) {
  auto body = [this](Communicator& comm) -> Task<> {
    co_await go_over(comm);
    fake_.status_of = [](const ibv_send_wr& request) {
      return request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
    };
    Bytes data(8);
    if (comm.rank() == 0) co_await comm.send(data, 1, 3);
    const auto error = co_await error_of(Task<>(comm.recv(data, 1 - comm.rank(), 3)));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_THAT(error ? error->what() : "",
                HasSubstr("a RDMA WRITE of 40 bytes for rank 1 failed: retries exceeded (status 12"));
  };
  run_ranks(body);
}

/// It has left with a message unread, and with its last words on their way.
TEST_F(VerbsPackets, of_a_rank_that_left_are_received_and_missing_ones_are_laid_to_it) {
  constexpr std::uint8_t kWords = 20;  // after some of which a credit is told, to nobody
  static_assert(kWords > verbs::kCreditMessages);
  auto body = [this](Communicator& comm) -> Task<> {
    co_await go_over(comm);
    Bytes data(8);
    if (comm.rank() == 0) {
      co_await comm.recv(data, 1);
      for (data[0] = 0; data[0] < kWords; ++data[0]) co_await comm.send(data, 1, 3);
      co_return;
    }
    co_await comm.send(data, 0);
    co_await comm.send(data, 0, 9);
    co_await engine_.sleep_for(50ms);
    for (std::uint8_t i = 0; i < kWords; ++i) {
      co_await comm.recv(data, 0, 3);
      EXPECT_EQ(data[0], i);
    }
    const auto error = co_await error_of(Task<>(comm.recv(data, 0, 3)));
    EXPECT_EQ(kind_of(error), "PeerAborted") << error->what();
  };
  run_ranks(body);
}

/// Before the connection on which they would go on is made.
TEST_F(VerbsPackets, of_a_rank_that_left_at_once_are_received_and_nobody_is_warned) {
  ::testing::internal::CaptureStderr();
  auto body = [this](Communicator& comm) -> Task<> {
    Bytes data(8);
    if (comm.rank() == 0) {
      data[0] = 5;
      for (int i = 0; i < 3; ++i) co_await comm.send(data, 1);
      co_return;
    }
    co_await engine_.sleep_for(20ms);
    for (int i = 0; i < 3; ++i) {
      co_await comm.recv(data, 0);
      EXPECT_EQ(data[0], 5);
    }
  };
  run_ranks(body);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("warn")));
}

/// A connection is made for a direction in which there was a message, and for no other.
TEST_F(VerbsPackets, cost_no_memory_of_the_device_where_none_are_sent) {
  auto body = [this](Communicator& comm) -> Task<> {
    const int objects = fake_.objects;
    Bytes data(8);
    if (comm.rank() == 0) {
      co_await engine_.sleep_for(50ms);
      EXPECT_EQ(fake_.objects, objects) << "somebody receives, and nobody sends";
      co_await comm.send(data, 1);
    } else {
      co_await comm.recv(data, 0);
      while (fake_.objects == objects) co_await engine_.sleep_for(1ms);
    }
  };
  const int before = fake_.objects;
  run_ranks(body);
  EXPECT_EQ(fake_.objects, before) << "something was not given back";
}

}  // namespace
}  // namespace cohort::test::packets_test
