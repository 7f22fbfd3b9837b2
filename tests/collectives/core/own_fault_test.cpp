// SPDX-License-Identifier: Apache-2.0
// A rank whose host has nothing left for a connection: that is no fault of whoever is at the other end.
#include <cohort/cohort.h>
#include <cohort/collectives/job/health.h>
#include <cohort/engine/io/network.h>
#include <cohort/net/link_owner.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>
#include <cohort/tests/support/world_run.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <limits>
#include <utility>

namespace cohort::own_fault_test {
namespace {

using cohort::test::error_of;
using cohort::test::kind_of;
using ::testing::HasSubstr;

constexpr Rank kRanks = 3;
constexpr Rank kShort = 1;

/// What a host has no more of.
struct Shortage {
  bool has_no_sockets = false;
  int sends_without_buffers = 0;
  static constexpr int kForever = std::numeric_limits<int>::max();
};

class ShortNetwork final : public Network {
 public:
  ShortNetwork(std::unique_ptr<Network> of_world, Shortage& shortage)
      : world_(std::move(of_world)), shortage_(shortage) {}

  int open(const Address& like) override { return shortage_.has_no_sockets ? -EMFILE : world_->open(like); }
  int listen(int socket, const Address& at) override { return world_->listen(socket, at); }
  int accept(int socket) override { return world_->accept(socket); }
  void own(int socket) noexcept override { world_->own(socket); }
  void close(int socket) noexcept override { world_->close(socket); }
  int send(int socket, std::span<const std::byte> first,
           std::span<const std::byte> second) noexcept override {
    if (shortage_.sends_without_buffers == 0) return world_->send(socket, first, second);
    if (shortage_.sends_without_buffers != Shortage::kForever) --shortage_.sends_without_buffers;
    return -ENOBUFS;
  }
  int receive(int socket, std::span<std::byte> into) noexcept override {
    return world_->receive(socket, into);
  }
  int unacknowledged(int socket) noexcept override { return world_->unacknowledged(socket); }
  void shutdown(int socket) noexcept override { world_->shutdown(socket); }
  void set_no_delay(int socket) noexcept override { world_->set_no_delay(socket); }
  void set_buffer_bytes(int socket, std::size_t bytes) noexcept override {
    world_->set_buffer_bytes(socket, bytes);
  }
  int peer_credentials(int socket, PeerCredentials& into) override {
    return world_->peer_credentials(socket, into);
  }
  int local_address(int socket, Address& into) override { return world_->local_address(socket, into); }
  int remote_address(int socket, Address& into) override { return world_->remote_address(socket, into); }

 private:
  const std::unique_ptr<Network> world_;
  Shortage& shortage_;
};

/// What all but the one that runs short are told.
struct Told {
  std::string kind;
  std::string what;
};

/// Runs `part` on all ranks, of whom one has a host that can run short; expects that all name that one, which
/// knows `what` it is short of.
void expect_all_name_it(std::vector<unsigned> host_of, const std::string& address, const std::string& what,
                        const std::function<Task<>(Communicator&, Shortage&)>& part, const Told& others) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = std::move(host_of);
  Shortage shortage;
  std::vector<std::function<void(Engine&)>> bodies;
  for (Rank rank = 0; rank < kRanks; ++rank)
    bodies.emplace_back([&, rank](Engine& engine) {
      CommunicatorOptions options;
      options.join.address = address;
      options.join.is_unauthenticated = true;
      options.join.rank = rank;
      options.join.size = kRanks;
      auto whole = [&]() -> Task<> {
        Communicator comm = co_await Communicator::join(engine, std::move(options));
        const std::optional<Error> error = co_await error_of(part(comm, shortage));
        const Told told = rank == kShort ? Told{"ResourceLimit", what} : others;
        EXPECT_EQ(kind_of(error), told.kind) << "rank " << rank;
        if (error) {
          EXPECT_EQ(error->culprit(), kShort) << "rank " << rank << ": " << error->what();
          EXPECT_THAT(error->what(), HasSubstr(told.what));
        }
        co_await comm.close();
      };
      engine.run(whole());
    });
  test::run_world(settings, bodies, [&](world::Process process, EngineOptions& options) {
    if (process == kShort)
      options.network = std::make_unique<ShortNetwork>(std::move(options.network), shortage);
  });
}

void expect_all_name_it(std::vector<unsigned> host_of, const std::string& address, const std::string& what,
                        const std::function<Task<>(Communicator&, Shortage&)>& part) {
  expect_all_name_it(std::move(host_of), address, what, part, {"ResourceLimit", what});
}

TEST(OwnFault, of_a_rank_without_sockets_for_its_messages_is_told_of_that_rank) {
  const auto part = [](Communicator& comm, Shortage& shortage) -> Task<> {
    std::array<std::int32_t, 4> data{};
    if (comm.rank() == kShort) {
      shortage.has_no_sockets = true;
      co_await comm.send(data, 0, 7);
    } else if (comm.rank() == 0) {
      co_await comm.recv(data, kShort, 7);
    }
    co_await comm.barrier();
  };
  expect_all_name_it({0, 1, 2}, "10.0.0.1:7000", "creating a socket", part);
}

TEST(OwnFault, of_a_rank_that_has_no_room_for_a_word_to_a_peer_is_told_of_that_rank) {
  const auto part = [](Communicator& comm, Shortage& shortage) -> Task<> {
    if (comm.rank() != kShort) co_await comm.engine().sleep_for(std::chrono::seconds(1));
    if (comm.rank() == kShort) shortage.sends_without_buffers = 1;  // when it says that it waits
    co_await comm.barrier();
  };
  expect_all_name_it({0, 0, 0}, "unix:short", "No buffer space", part);
  expect_all_name_it({0, 0, 1}, "10.0.0.1:7000", "No buffer space", part);
}

/// Nor can it say why it gives up, or goodbye: the end of its connections tells the others.
TEST(OwnFault, of_a_rank_that_can_say_nothing_more_is_told_by_the_end_of_its_connections) {
  const auto part = [](Communicator& comm, Shortage& shortage) -> Task<> {
    if (comm.rank() != kShort) co_await comm.engine().sleep_for(std::chrono::seconds(1));
    if (comm.rank() == kShort) shortage.sends_without_buffers = Shortage::kForever;
    const TimePoint start = comm.engine().now();
    Task<> barrier = comm.barrier();
    const std::optional<Error> error = co_await error_of(std::move(barrier));
    EXPECT_LT(comm.engine().now() - start, std::chrono::seconds(5)) << "well before the call's deadline";
    if (comm.rank() == kShort) co_await comm.engine().sleep_for(std::chrono::seconds(20));  // not closed yet
    if (error) throw Error(*error);
  };
  const Told others = {"PeerDied", "ended without leaving"};
  expect_all_name_it({0, 0, 0}, "unix:short", "No buffer space", part, others);
  expect_all_name_it({0, 0, 1}, "10.0.0.1:7000", "No buffer space", part, others);
  expect_all_name_it({0, 1, 2}, "10.0.0.1:7000", "No buffer space", part, others);
}

/// The kernel says so; where ranks map each other's memory a process dies of it.
TEST(OwnFault, of_a_rank_whose_buffer_is_not_its_own_is_told_of_that_rank) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::uint8_t> data(3'000'000);
    const std::span<std::uint8_t> nowhere(reinterpret_cast<std::uint8_t*>(0x1000), data.size());
    std::span<std::uint8_t> buffer = data;
    if (comm.rank() == kShort) buffer = nowhere;
    co_await comm.broadcast(buffer, kShort);
  };
  CommunicatorOptions options;
  options.transport = "tcp";
  for (const test::Outcome& outcome : test::outcomes_of_ranks(kRanks, body, options)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(kind_of(outcome.error), "InvalidArgument");
    EXPECT_EQ(outcome.error->culprit(), kShort);
    EXPECT_THAT(outcome.error->what(), HasSubstr("not all of the call's buffer is memory of this process"));
  }
}

TEST(OwnFault, has_an_advice_of_its_kind) {
  PeerInfo peer;
  peer.rank = 3;
  EXPECT_THAT(advice_on(ErrorKind::ResourceLimit, peer), HasSubstr("is short of"));
  EXPECT_THAT(advice_on(ErrorKind::Unsupported, peer), HasSubstr("COHORT_TRANSPORT"));
  EXPECT_THAT(advice_on(ErrorKind::Internal, peer), HasSubstr("report it"));
  EXPECT_THAT(advice_on(ErrorKind::InvalidArgument, peer), HasSubstr("a buffer of its own"));
  for (const ErrorKind kind : {ErrorKind::Internal, ErrorKind::Unsupported, ErrorKind::SystemError})
    EXPECT_THAT(advice_on(kind, peer), ::testing::Not(HasSubstr("is short of")));
}

TEST(OwnFault, is_what_a_peer_could_not_have_caused) {
  const Error limit(ErrorKind::ResourceLimit, "no memory");
  const Error broken(ErrorKind::LinkFault, "reset");
  EXPECT_EQ(blamed_on(limit, 2, 5).culprit(), 2U);
  EXPECT_EQ(blamed_on(Error(ErrorKind::Unsupported, "no device"), 2, 5).culprit(), 2U);
  EXPECT_EQ(blamed_on(Error(ErrorKind::Internal, "a bug"), 2, 5).culprit(), 2U);
  EXPECT_EQ(blamed_on(broken, 2, 5).culprit(), 5U);
  EXPECT_EQ(blamed_on(limit.with_culprit(5), 2, 5).culprit(), 5U) << "the peer has none, and says so";
}

}  // namespace
}  // namespace cohort::own_fault_test
