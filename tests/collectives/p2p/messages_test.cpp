// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <cohort/tests/support/fake_verbs_transport.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

namespace cohort::test::messages_test {
namespace {

using cohort::test::error_of;
using cohort::test::kind_of;
using ::testing::HasSubstr;

/// From empty to what no ring and no socket holds.
constexpr std::array<std::size_t, 9> kSizes = {0, 1, 8, 1000, 8 * 1024, 20'000, 32 * 1024, 70'000, 3'000'000};

std::vector<std::uint8_t> bytes_of(std::size_t size, unsigned seed) {
  std::vector<std::uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(seed));
  return bytes;
}

struct Place {
  const char* name;
  const char* transport;
  Rank hosts;
  bool is_isolated;
  std::size_t pull_from_bytes;
  bool is_made_up = false;  ///< the RDMA device of all ranks, which share an engine
  unsigned connections = 1;
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.name; }

class Messages : public ::testing::TestWithParam<Place> {
 protected:
  void run(Rank ranks, const RankFunction& body) {
    if (!GetParam().is_made_up) return run_ranks(ranks, body, options(), GetParam().hosts);
    Engine engine;
    run_ranks_on(engine, ranks, body, options());
  }
  [[nodiscard]] static CommunicatorOptions options() {
    CommunicatorOptions options;
    options.transport = GetParam().transport;
    options.is_isolated = GetParam().is_isolated;
    options.pull_from_bytes = GetParam().pull_from_bytes;
    options.tcp_connections = GetParam().connections;
    if (GetParam().is_made_up) options.transports = std::span(&kFakeVerbsTransport, 1);
    return options;
  }
};

Task<> expect_received(Communicator& comm, Rank from, int tag, std::size_t size, unsigned seed) {
  std::vector<std::uint8_t> got(size);
  co_await comm.recv(got, from, tag);
  EXPECT_EQ(got, bytes_of(size, seed)) << size << " bytes from rank " << from << " with tag " << tag;
}

Task<> send_filled(Communicator& comm, Rank to, int tag, std::size_t size, unsigned seed) {
  const std::vector<std::uint8_t> data = bytes_of(size, seed);
  co_await comm.send(data, to, tag);
}

TEST_P(Messages, of_every_size_arrive_as_they_were_sent) {
  auto body = [](Communicator& comm) -> Task<> {
    const Rank other = 1 - comm.rank();
    for (int round = 0; round < 3; ++round)
      for (const std::size_t size : kSizes) {
        const unsigned seed = other + 1;
        if (comm.rank() == 0) co_await send_filled(comm, other, round, size, 1);
        co_await expect_received(comm, other, round, size, seed);
        if (comm.rank() == 1) co_await send_filled(comm, other, round, size, 2);
      }
  };
  run(2, body);
}

TEST_P(Messages, are_matched_by_tag_in_order_however_they_are_awaited) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<Task<>> all;
    for (Rank other = 0; other < comm.size(); ++other) {
      if (other == comm.rank()) continue;
      for (unsigned i = 0; i < 70; ++i) {
        const std::size_t size = kSizes[i % kSizes.size()];
        all.push_back(send_filled(comm, other, static_cast<int>(i % 5), size, comm.rank() * 100 + i));
      }
      // By tag, backwards: within a tag in the order of the sends.
      for (unsigned tag = 5; tag-- > 0;)
        for (unsigned i = tag; i < 70; i += 5)
          all.push_back(expect_received(comm, other, static_cast<int>(tag), kSizes[i % kSizes.size()],
                                        other * 100 + i));
    }
    co_await when_all(all);
    co_await comm.barrier();
  };
  run(3, body);
}

TEST_P(Messages, that_nobody_wants_yet_hold_up_no_other) {
  auto body = [](Communicator& comm) -> Task<> {
    if (comm.rank() == 0) {
      std::vector<Task<>> sends;
      for (unsigned i = 0; i < 300; ++i) sends.push_back(send_filled(comm, 1, 1, 8000, i));
      sends.push_back(send_filled(comm, 1, 2, 100'000, 7));
      co_await when_all(sends);
    } else {
      co_await expect_received(comm, 0, 2, 100'000, 7);
      for (unsigned i = 0; i < 300; ++i) co_await expect_received(comm, 0, 1, 8000, i);
    }
  };
  run(2, body);
}

TEST_P(Messages, from_anybody_say_from_whom) {
  auto body = [](Communicator& comm) -> Task<> {
    if (comm.rank() != 0) {
      const std::vector<std::int32_t> own(10, static_cast<std::int32_t>(comm.rank()));
      for (int i = 0; i < 20; ++i) co_await comm.send(own, 0, 9);
      co_return;
    }
    std::vector<int> count(comm.size());
    std::vector<std::int32_t> got(10);
    for (Rank i = 0; i < 20 * (comm.size() - 1); ++i) {
      const Rank from = co_await comm.recv_any(got, 9);
      EXPECT_EQ(got[9], static_cast<std::int32_t>(from));
      ++count[from];
    }
    EXPECT_THAT(count, ::testing::ElementsAre(0, 20, 20, 20));
  };
  run(4, body);
}

TEST_P(Messages, run_beside_collectives_and_in_groups) {
  auto body = [](Communicator& comm) -> Task<> {
    std::optional<Communicator> half = co_await comm.split(static_cast<int>(comm.rank() / 2));
    const Rank other = 1 - half->rank();
    std::vector<std::int64_t> sums(50'000, 1);
    auto exchange = [&](Communicator& on, Rank with, unsigned seed) -> Task<> {
      for (const std::size_t size : kSizes)
        co_await when_all(send_filled(on, with, 0, size, seed), expect_received(on, with, 0, size, seed));
    };
    const Rank far = (comm.rank() + 2) % comm.size();
    co_await when_all(exchange(*half, other, 3), exchange(comm, far, 4),
                      comm.all_reduce(sums, ReduceOp::sum));
    EXPECT_EQ(sums[0], 4);
  };
  run(4, body);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Messages,
                         ::testing::Values(Place{"threads", "", 1, false, 0}, Place{"pulled", "", 1, true, 1},
                                           Place{"in_pieces", "", 1, true, kNeverPull},
                                           Place{"tcp", "tcp", 1, false, 0}, Place{"hosts", "", 2, true, 0},
                                           Place{"connections", "tcp", 2, true, 0, false, 3},
                                           Place{"rdma", "verbs", 1, true, 0, true}),
                         [](const auto& test) { return test.param.name; });

/// Its root still lets data leave, and has not said goodbye yet.
TEST(MessagesOfLeavers, a_group_that_ends_while_its_root_closes_does_not_end_it) {
  world::Settings settings;
  settings.host_of = {0, 1};
  settings.outside_latency = std::chrono::milliseconds(20);
  auto body = [](Communicator& comm) -> Task<> {
    std::optional<Communicator> group = co_await comm.split(0);
    std::vector<std::byte> data(60'000, std::byte{1});
    auto end_group = [&]() -> Task<> {
      co_await comm.engine().sleep_for(std::chrono::milliseconds(5));
      co_await group->close();
    };
    if (comm.rank() == 0) {
      co_await comm.send(data, 1);
      co_await when_all(comm.close(), end_group());
    } else {
      co_await comm.engine().sleep_for(std::chrono::milliseconds(100));
      co_await comm.recv(data, 0);
    }
  };
  for (const Outcome& outcome : outcomes_of_ranks_in_world(settings, body))
    EXPECT_FALSE(outcome.error) << outcome.error->what();
}

TEST(MessageErrors, other_sizes_are_told_to_both_ends_with_ranks_sizes_and_tag) {
  for (const std::size_t size : {std::size_t{8}, std::size_t{1} << 20}) {
    auto body = [size](Communicator& comm) -> Task<> {
      std::vector<std::byte> data(comm.rank() == 0 ? size : 24);
      auto move = [&]() -> Task<> {
        if (comm.rank() == 0) co_await comm.send(data, 1, 77);
        if (comm.rank() == 1) co_await comm.recv(data, 0, 77);
        co_await comm.barrier();
      };
      const auto error = co_await error_of(move());
      EXPECT_EQ(kind_of(error), "Mismatch");
      EXPECT_EQ(error->culprit(), Rank{0});
      EXPECT_THAT(error->what(), HasSubstr(fmt::format("sends {} bytes with tag 77 to rank 1", size)));
      EXPECT_THAT(error->what(), HasSubstr("which receives 24 bytes there"));
    };
    run_ranks_in_world(3, body);
    run_ranks_in_world(3, body, {}, 3);
  }
}

/// Nothing follows that could fail instead.
TEST(MessageErrors, other_sizes_end_the_send_and_the_recv_themselves_and_nothing_is_received) {
  struct Sizes {
    std::size_t sent;
    std::size_t received;
  };
  constexpr std::array kOther = {Sizes{8, 24}, Sizes{300'000, 24}, Sizes{300'000, 400'000},
                                 Sizes{24, 300'000}};
  for (const Sizes sizes : kOther) {
    for (const Rank late : {0U, 1U}) {
      auto body = [=](Communicator& comm) -> Task<> {
        if (comm.rank() == late) co_await comm.engine().sleep_for(std::chrono::milliseconds(10));
        std::vector<std::byte> data(comm.rank() == 0 ? sizes.sent : sizes.received,
                                    std::byte{static_cast<unsigned char>(1 + comm.rank())});
        auto move = [&]() -> Task<> {
          if (comm.rank() == 0) co_await comm.send(data, 1, 77);
          if (comm.rank() == 1) co_await comm.recv(data, 0, 77);
        };
        const auto error = co_await error_of(move());
        const bool was_sent_at_once = comm.rank() == 0 && sizes.sent < 1000;
        if (!was_sent_at_once) {
          EXPECT_EQ(kind_of(error), "Mismatch") << sizes.sent << " and " << sizes.received << " bytes";
          EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{0});
        }
        const auto is_own = [&](std::byte byte) { return std::to_integer<Rank>(byte) == 1 + comm.rank(); };
        EXPECT_TRUE(std::ranges::all_of(data, is_own)) << "rank " << comm.rank() << " has other bytes";
        Task<> barrier = comm.barrier();
        const auto later = co_await error_of(std::move(barrier));
        EXPECT_EQ(kind_of(later), "Mismatch");
      };
      run_ranks_in_world(2, body);
      run_ranks_in_world(2, body, {}, 2);
      CommunicatorOptions apart;
      apart.is_isolated = true;
      run_ranks_in_world(2, body, std::move(apart));
    }
  }
}

TEST(MessageErrors, what_nobody_sends_ends_at_the_deadline_and_names_who_did_not) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(5);
    if (comm.rank() == 0) {
      Task<> receiving = comm.recv(data, 1, 3).with_deadline(std::chrono::seconds(5));
      const auto error = co_await error_of(std::move(receiving));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded");
      EXPECT_EQ(error->culprit(), Rank{1});
      EXPECT_THAT(error->what(), HasSubstr("recv of 20 bytes from rank 1"));
      EXPECT_THAT(error->what(), HasSubstr("with tag 3"));
    } else {
      co_await comm.engine().sleep_for(std::chrono::seconds(6));
      EXPECT_TRUE(comm.is_failed());
    }
  };
  run_ranks_in_world(2, body);
  run_ranks_in_world(2, body, {}, 2);
}

/// Its pieces go on coming until the sender has heard of it.
TEST(MessageErrors, a_recv_that_ends_amid_its_message_ends_by_its_deadline) {
  CommunicatorOptions options;
  options.transport = "tcp";
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::byte> data(std::size_t{256} << 20);
    co_await comm.barrier();
    Task<> moving = comm.rank() == 0 ? comm.send(data, 1, 7)
                                     : comm.recv(data, 0, 7).with_deadline(std::chrono::milliseconds(20));
    const auto error = co_await error_of(std::move(moving));
    const bool may_have_sent_all = comm.rank() == 0 && !error;
    EXPECT_TRUE(may_have_sent_all || kind_of(error) == "DeadlineExceeded") << kind_of(error);
  };
  run_ranks(2, body, options);
}

/// Its engine stood still meanwhile, and its own deadline is the first thing that it notices.
TEST(MessageErrors, who_comes_late_to_its_deadline_hears_first_whom_the_others_named) {
  CommunicatorOptions options;
  options.timeout = std::chrono::seconds(1);
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(300'000);
    auto move = [&]() -> Task<> {
      if (comm.rank() == 2) co_await comm.engine().sleep_for(std::chrono::milliseconds(500));
      if (comm.rank() == 0) co_await comm.recv(data, 1, 3);
      if (comm.rank() == 1) co_await comm.recv(data, 2, 4);
      if (comm.rank() == 2) co_await comm.send(data, 1, 4);
    };
    auto stand_still = [&]() -> Task<> {
      co_await comm.engine().sleep_for(std::chrono::milliseconds(1));
      if (comm.rank() == 1) compute(comm.engine(), std::chrono::seconds(20));
    };
    co_await when_all(move(), stand_still());
  };
  for (const Rank hosts : {1U, 3U})
    for (const Outcome& outcome : outcomes_of_ranks_in_world(3, body, options, hosts)) {
      EXPECT_EQ(kind_of(outcome.error), "DeadlineExceeded");
      EXPECT_EQ(outcome.error ? outcome.error->culprit() : std::nullopt, Rank{1}) << outcome.error->what();
    }
}

TEST(MessageErrors, a_rank_that_leaves_fails_who_waits_for_its_message) {
  auto body = [](Communicator& comm) -> Task<> {
    if (comm.rank() == 1) co_return;
    std::vector<float> data(5);
    Task<> receiving = comm.recv(data, 1, 3);
    const auto error = co_await error_of(std::move(receiving));
    EXPECT_EQ(kind_of(error), "PeerAborted");
    EXPECT_THAT(error->what(), HasSubstr("waits to receive from it with tag 3"));
  };
  run_ranks_in_world(2, body);
  run_ranks_in_world(2, body, {}, 2);
}

/// Whenever the last one leaves: what it said is received, and then nobody but it is to blame.
TEST(MessageErrors, from_anybody_waits_for_the_last_words_of_the_last_rank_that_leaves) {
  for (const Rank hosts : {1U, 3U}) {
    for (int ms = 1; ms <= 601; ms += 50) {
      auto body = [ms](Communicator& comm) -> Task<> {
        std::array<std::int32_t, 2> data{};
        if (comm.rank() == 1) co_return;
        if (comm.rank() == 2) {
          co_await comm.engine().sleep_for(std::chrono::milliseconds(ms) - std::chrono::microseconds(20));
          data = {5, 6};
          co_await comm.send(data, 0, 4);
          co_return;
        }
        const Rank from = co_await comm.recv_any(data, 4);
        EXPECT_EQ(from, 2U);
        EXPECT_EQ(data[1], 6);
        Task<Rank> another = comm.recv_any(data, 4);
        const auto error = co_await error_of(std::move(another));
        EXPECT_EQ(kind_of(error), "PeerAborted");
        EXPECT_EQ(error ? error->culprit() : std::nullopt, Rank{2}) << "who left last, " << ms << " ms later";
      };
      run_ranks_in_world(3, body, {}, hosts);
    }
  }
}

TEST(MessageErrors, from_anybody_reads_what_came_while_its_rank_computed) {
  for (const Rank hosts : {1U, 3U}) {
    auto body = [](Communicator& comm) -> Task<> {
      std::array<std::int32_t, 2> data{static_cast<std::int32_t>(comm.rank())};
      if (comm.rank() != 0) {
        co_await comm.engine().sleep_for(std::chrono::milliseconds(2));
        co_await comm.send(data, 0, 4);
        co_return;
      }
      auto receive = [&]() -> Task<> {
        for (int i = 0; i < 2; ++i) {
          const Rank from = co_await comm.recv_any(data, 4);
          EXPECT_EQ(data[0], static_cast<std::int32_t>(from));
        }
      };
      auto work = [&]() -> Task<> {
        co_await comm.engine().sleep_for(std::chrono::milliseconds(1));
        compute(comm.engine(), std::chrono::seconds(2));
      };
      co_await when_all(receive(), work());
    };
    run_ranks_in_world(3, body, {}, hosts);
  }
}

/// Small ones are over for their sender before they arrive: it may have left in good order by then.
TEST(MessageErrors, lost_with_the_connection_of_a_rank_that_left_are_told_as_lost) {
  int lost = 0;
  for (std::uint64_t step = 1; step < 80; ++step) {
    world::Settings settings;
    settings.seed = 1;
    settings.host_of = {0, 1, 2};
    settings.outside_latency = std::chrono::milliseconds(5);
    settings.broken = {{.from = 1, .to = 0, .step = step}};
    bool has_joined = false;
    auto body = [&](Communicator& comm) -> Task<> {
      std::array<std::int32_t, 2000> data{};
      if (comm.rank() == 0) has_joined = true;
      for (int i = 0; i < 5; ++i) {
        if (comm.rank() == 0) co_await comm.recv(data, 1, 4);
        if (comm.rank() == 1) co_await comm.send(data, 0, 4);
      }
    };
    const std::optional<Error> error = outcomes_of_ranks_in_world(settings, body)[0].error;
    if (!has_joined || !error) continue;
    EXPECT_NE(kind_of(error), "PeerAborted") << "step " << step << ": " << error->what();
    lost +=
        std::string_view(error->what()).find("messages that it had sent are lost") != std::string_view::npos;
  }
  EXPECT_GT(lost, 0);
}

TEST(MessageErrors, one_that_is_cancelled_before_anybody_heard_of_it_costs_nothing_else) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(5);
    if (comm.rank() == 0) {
      auto receive = [&]() -> Task<> { co_await comm.recv(data, 1, 3); };
      TaskScope scope;
      scope.spawn(receive());
      scope.cancel();
      co_await scope.join();
    }
    co_await comm.barrier();
    if (comm.rank() == 0) co_await comm.recv(data, 1, 4);
    if (comm.rank() == 1) co_await comm.send(data, 0, 4);
    EXPECT_FALSE(comm.is_failed());
  };
  run_ranks_in_world(2, body);
}

TEST(MessageErrors, what_no_message_can_be_is_refused_at_the_call) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(5);
    EXPECT_THROW((void)comm.send(data, 2), Error);
    EXPECT_THROW((void)comm.recv(data, comm.rank()), Error);
    EXPECT_THROW((void)comm.recv(std::span<float>(static_cast<float*>(nullptr), 4), 1 - comm.rank()), Error);
    co_return;
  };
  run_ranks_in_world(2, body);
}

}  // namespace
}  // namespace cohort::test::messages_test
