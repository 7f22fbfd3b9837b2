// SPDX-License-Identifier: Apache-2.0
// Ranks of one engine that reach each other over a library that is made up.
#include <cohort/cohort.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/fake_verbs_transport.h>

#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace cohort {
namespace {

using test::fake_verbs_of_transport;
using test::kFakeVerbsTransport;
using testing::error_of;
using testing::fresh_unix_address;
using ::testing::HasSubstr;
using testing::kind_of;
using testing::LinkEnd;

class VerbsTransport : public ::testing::Test {
 protected:
  Task<> join_and_run(Rank rank, CommunicatorOptions options, const RankFunction& function) {
    Communicator comm = co_await Communicator::join(engine_, std::move(options).for_rank(rank, 2));
    const auto error = co_await error_of(function(comm));
    EXPECT_FALSE(error) << "rank " << rank << ": " << error->what();
    co_await comm.close();
  }
  /// On both of two ranks.
  void run_ranks(const RankFunction& function) {
    CommunicatorOptions options;
    options.transports = std::span(&kFakeVerbsTransport, 1);
    options.timeout = std::chrono::seconds(10);
    options.join.address = fresh_unix_address();
    options.join.timeout = std::chrono::seconds(60);
    auto both = [&]() -> Task<> {
      co_await when_all(join_and_run(0, options, function), join_and_run(1, options, function));
    };
    engine_.run(both());
  }

  Engine engine_;
};

TEST_F(VerbsTransport, sends_small_messages_before_anybody_receives) {
  constexpr std::uint64_t kMessages = 200;  // more than a ring takes without its receiver
  auto body = [](Communicator& comm) -> Task<> {
    EXPECT_EQ(comm.transport(), "verbs");
    std::vector<std::uint64_t> value(1);
    if (comm.rank() == 0) {
      for (value[0] = 0; value[0] < kMessages; ++value[0]) co_await comm.send(value, 1);
      co_await comm.barrier();
      co_return;
    }
    co_await comm.barrier();
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      co_await comm.recv(value, 0);
      EXPECT_EQ(value[0], i);
    }
  };
  run_ranks(body);
}

/// Twice over the same memory, on both ranks at once.
Task<> broadcast_twice(Communicator& comm, std::span<float> memory) {
  test::FakeVerbs& fake = fake_verbs_of_transport();
  co_await comm.broadcast(memory, 0);
  co_await comm.barrier();
  const int registrations = fake.registrations;
  const int reads = fake.reads;
  co_await comm.broadcast(memory, 0);
  EXPECT_GT(fake.reads, reads);
  EXPECT_EQ(fake.registrations, registrations);
  co_await comm.barrier();
}

TEST_F(VerbsTransport, registers_a_programs_buffers_once_and_until_they_are_freed) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  auto body = [](Communicator& comm) -> Task<> {
    const test::FakeVerbs& fake = fake_verbs_of_transport();
    SharedBuffer<float> allocated = comm.allocate<float>(kBytes / sizeof(float));
    co_await broadcast_twice(comm, allocated.span());
    const std::unique_ptr<std::byte, void (*)(void*)> own(
        static_cast<std::byte*>(std::aligned_alloc(kBytes, kBytes)), std::free);
    const std::span<float> floats(reinterpret_cast<float*>(own.get()), kBytes / sizeof(float));
    Registration registration = comm.register_buffer(floats);
    co_await broadcast_twice(comm, floats);
    const std::size_t before = fake.registered_bytes;
    co_await comm.barrier();
    allocated = {};
    registration = {};
    co_await comm.barrier();
    EXPECT_EQ(fake.registered_bytes, before - 4 * kBytes) << "two buffers of two ranks";
  };
  run_ranks(body);
}

/// The rank that may lock no memory looks at itself, not at its peer.
TEST_F(VerbsTransport, lays_to_a_rank_what_its_host_lacks) {
  const LinkEnd::Choice choice{.address = fresh_unix_address(), .kind = kFakeVerbsTransport};
  auto play = [&](Rank rank) -> Task<> {
    const std::unique_ptr<LinkEnd> end = co_await LinkEnd::make(engine_, rank, choice);
    test::FakeVerbs& fake = fake_verbs_of_transport();
    fake.most_memory = fake.registered_bytes;
    auto connect = [&]() -> Task<> {
      const auto link = co_await end->transports().to(end->peer()).connect(end->peer(), LinkEnd::kLane + 1);
      EXPECT_EQ(link, nullptr);
    };
    const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), connect()));
    EXPECT_EQ(kind_of(error), "ResourceLimit");
    if (error) {
      EXPECT_EQ(error->culprit(), rank);
      EXPECT_THAT(error->what(), HasSubstr("no RDMA connection to rank"));
    }
    co_await end->finish();
  };
  auto both = [&]() -> Task<> { co_await when_all(play(0), play(1)); };
  engine_.run(both());
  fake_verbs_of_transport().most_memory = ~std::size_t{0};
}

}  // namespace
}  // namespace cohort
