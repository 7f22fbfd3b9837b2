// SPDX-License-Identifier: Apache-2.0
// Ranks of one engine that reach each other over a library that is made up.
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/net/verbs/verbs_ranks.h>

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace cohort::verbs_transport_test {
namespace {

using test::error_of;
using test::fake_verbs_of_transport;
using test::fresh_unix_address;
using test::kFakeVerbsTransport;
using test::kind_of;
using test::LinkEnd;
using ::testing::HasSubstr;

class VerbsTransport : public test::VerbsRanks {};

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

std::vector<std::uint8_t> bytes_of(std::size_t size, unsigned seed) {
  std::vector<std::uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(seed));
  return bytes;
}

/// Of sizes around a packet's and a loan's, and more than one loan; awaited in another order than they are
/// sent.
TEST_F(VerbsTransport, reads_large_messages_where_they_lie_in_whatever_order_they_are_received) {
  static constexpr std::array<std::size_t, 6> kSizes = {100,     65'536,  65'537,
                                                        300'000, 1 << 20, (16 << 20) + 70'001};
  auto send = [](Communicator& comm, unsigned i) -> Task<> {
    const std::vector<std::uint8_t> data = bytes_of(kSizes[i % kSizes.size()], i);
    co_await comm.send(data, 1 - comm.rank(), static_cast<std::int32_t>(i % 5));
  };
  auto receive = [](Communicator& comm, unsigned i) -> Task<> {
    std::vector<std::uint8_t> got(kSizes[i % kSizes.size()]);
    co_await comm.recv(got, 1 - comm.rank(), static_cast<std::int32_t>(i % 5));
    EXPECT_EQ(got, bytes_of(got.size(), i)) << "message " << i;
  };
  auto body = [&](Communicator& comm) -> Task<> {
    const int reads = fake_verbs_of_transport().reads;
    std::vector<Task<>> all;
    for (unsigned i = 0; i < 30; ++i) all.push_back(send(comm, i));
    for (unsigned tag = 5; tag-- > 0;)
      for (unsigned i = tag; i < 30; i += 5) all.push_back(receive(comm, i));
    co_await when_all(all);
    co_await comm.barrier();
    EXPECT_GE(fake_verbs_of_transport().reads - reads, 2 * 15) << "those of 256 KiB and more";
  };
  run_ranks(body);
}

TEST_F(VerbsTransport, that_breaks_under_a_large_message_is_told_to_both_ends) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::uint8_t> data(1 << 20);
    auto move = [&]() -> Task<> {
      if (comm.rank() == 0) co_await comm.send(data, 1);
      if (comm.rank() == 1) co_await comm.recv(data, 0);
    };
    co_await move();
    fake_verbs_of_transport().status_of = [](const ibv_send_wr& request) {
      return request.opcode == IBV_WR_RDMA_READ ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS;
    };
    const auto error = co_await error_of(move());
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_THAT(error ? error->what() : "", HasSubstr("a RDMA READ of 1048576 bytes for rank 0 failed"));
  };
  run_ranks(body);
  fake_verbs_of_transport().status_of = nullptr;
}

/// What the device was to write it never writes: it has been stopped.
TEST_F(VerbsTransport, gives_the_memory_of_a_late_message_back_untouched) {
  constexpr std::size_t kBytes = 1 << 20;
  auto body = [](Communicator& comm) -> Task<> {
    test::FakeVerbs& fake = fake_verbs_of_transport();
    std::vector<std::uint8_t> data = bytes_of(kBytes, comm.rank());
    if (comm.rank() == 0) co_await comm.send(data, 1);
    if (comm.rank() == 1) co_await comm.recv(data, 0);
    co_await comm.barrier();
    fake.is_holding = true;
    data = bytes_of(kBytes, 7 + comm.rank());
    auto let_the_loan_through = [&]() -> Task<> {
      co_await comm.engine().sleep_for(std::chrono::milliseconds(100));
      fake.carry_out();
    };
    auto move = [&]() -> Task<> {
      if (comm.rank() == 0) co_await when_all(comm.send(data, 1), let_the_loan_through());
      if (comm.rank() == 1) co_await comm.recv(data, 0).with_deadline(std::chrono::milliseconds(300));
    };
    const auto error = co_await error_of(move());
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    fake.carry_out_all();
    EXPECT_EQ(data, bytes_of(kBytes, 7 + comm.rank())) << "rank " << comm.rank();
  };
  run_ranks(body);
  fake_verbs_of_transport().is_holding = false;
}

/// Three that are alike, of which the device reads the first one for long: the second one's deadline comes,
/// and nobody takes the third one's bytes for its own.
TEST_F(VerbsTransport, mistakes_no_message_for_one_that_has_ended_early) {
  constexpr std::size_t kBytes = 1 << 20;
  for (const Rank late : {0U, 1U}) {
    auto body = [late](Communicator& comm) -> Task<> {
      test::FakeVerbs& fake = fake_verbs_of_transport();
      std::vector<std::uint8_t> warm(kBytes);
      if (comm.rank() == 0) co_await comm.send(warm, 1);
      if (comm.rank() == 1) co_await comm.recv(warm, 0);
      co_await comm.barrier();
      fake.is_holding = true;
      auto move = [&](std::int32_t tag) -> Task<> {
        const bool ends_early = comm.rank() == late && tag == 1;
        const Duration time = ends_early ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
        std::vector<std::uint8_t> data(kBytes, static_cast<std::uint8_t>(comm.rank() == 0 ? 10 + tag : 0));
        Task<> moving = comm.rank() == 0 ? comm.send(data, 1, tag).with_deadline(time)
                                         : comm.recv(data, 0, tag).with_deadline(time);
        const auto error = co_await error_of(std::move(moving));
        const bool has_arrived = comm.rank() == 1 && !error;
        EXPECT_TRUE(!has_arrived || data[0] == 10 + tag)
            << "message " << tag << " has the bytes of " << data[0] - 10;
        EXPECT_TRUE(!error || kind_of(error) == "DeadlineExceeded") << error->what();
      };
      auto let_all_through = [&]() -> Task<> {
        co_await comm.engine().sleep_for(std::chrono::milliseconds(150));
        for (int i = 0; i < 200; ++i) {
          co_await comm.engine().sleep_for(std::chrono::milliseconds(2));
          if (comm.rank() == 0) fake.carry_out_all();
        }
      };
      co_await when_all(move(0), move(1), move(2), let_all_through());
      EXPECT_TRUE(comm.is_failed());
    };
    run_ranks(body);
    fake_verbs_of_transport().is_holding = false;
  }
}

/// Its sender gives the first one up before its receiver comes, which then asks for both.
TEST_F(VerbsTransport, mistakes_no_message_for_one_that_was_given_up_before_it_was_asked_for) {
  constexpr std::size_t kBytes = 1 << 20;
  auto body = [](Communicator& comm) -> Task<> {
    auto move = [&](std::int32_t tag) -> Task<> {
      const bool ends_early = comm.rank() == 0 && tag == 1;
      const Duration time = ends_early ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
      std::vector<std::uint8_t> data(kBytes, static_cast<std::uint8_t>(comm.rank() == 0 ? 10 + tag : 0));
      if (comm.rank() == 1) co_await comm.engine().sleep_for(std::chrono::milliseconds(200));
      Task<> moving = comm.rank() == 0 ? comm.send(data, 1, tag).with_deadline(time)
                                       : comm.recv(data, 0, tag).with_deadline(time);
      const auto error = co_await error_of(std::move(moving));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded") << "message " << tag << ", first byte " << data[0];
    };
    co_await when_all(move(1), move(2));
    EXPECT_TRUE(comm.is_failed());
  };
  run_ranks(body);
}

/// Who gave up says so, half a second later: until then nobody lays it to the network.
TEST_F(VerbsTransport, lays_a_late_message_to_the_deadline_whichever_end_gives_up) {
  constexpr std::size_t kBytes = 1 << 20;
  for (const Rank late : {0U, 1U}) {
    auto body = [late](Communicator& comm) -> Task<> {
      std::vector<std::uint8_t> data(kBytes);
      std::vector<std::uint8_t> back(kBytes);
      if (comm.rank() == 0) co_await comm.send(data, 1);
      if (comm.rank() == 1) co_await comm.recv(data, 0);
      co_await comm.barrier();
      fake_verbs_of_transport().is_holding = true;
      const Duration time = comm.rank() == late ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
      auto move = [&](Rank from, std::vector<std::uint8_t>& what, Duration most) -> Task<> {
        if (comm.rank() == from) co_await comm.send(what, 1 - from, 3).with_deadline(most);
        if (comm.rank() != from) co_await comm.recv(what, from, 3).with_deadline(most);
      };
      auto there = [&]() -> Task<> {
        const auto error = co_await error_of(move(0, data, time));
        EXPECT_EQ(kind_of(error), "DeadlineExceeded") << error->what();
      };
      auto and_back = [&]() -> Task<> {
        const auto error = co_await error_of(move(1, back, std::chrono::seconds(10)));
        EXPECT_EQ(kind_of(error), "DeadlineExceeded") << error->what();
      };
      auto let_a_loan_through = [&]() -> Task<> {
        co_await comm.engine().sleep_for(std::chrono::milliseconds(30));
        if (comm.rank() == 0) fake_verbs_of_transport().carry_out();
      };
      co_await when_all(there(), and_back(), let_a_loan_through());
    };
    run_ranks(body);
    fake_verbs_of_transport().is_holding = false;
    fake_verbs_of_transport().carry_out_all();
  }
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

/// The rank that may lock no memory looks at itself, not at its peer, which it tells that it gives up.
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
    EXPECT_EQ(end->host().told_of_giving_up, std::vector<Rank>{end->peer()});
    co_await end->finish();
  };
  auto both = [&]() -> Task<> { co_await when_all(play(0), play(1)); };
  engine_.run(both());
  fake_verbs_of_transport().most_memory = ~std::size_t{0};
}

}  // namespace
}  // namespace cohort::verbs_transport_test
