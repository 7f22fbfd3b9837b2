// SPDX-License-Identifier: Apache-2.0
// Whoever only gives is done before the others have come; what is wrong with the call reaches it all the
// same.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace cohort::going_ahead_test {
namespace {

using test::Outcome;
using test::outcomes_of_ranks_in_world;
using testing::HasSubstr;

constexpr Rank kRanks = 4;
constexpr std::size_t kCount = 100;  // small on every transport

/// What one rank needs of a call of its operator.
struct Buffers {
  explicit Buffers(Operator op, const Communicator& comm, std::size_t count) {
    const Extent extent = op->extent({.count = count, .ranks = comm.size()}, comm.rank());
    send.resize(extent.send, 1.0F);
    recv.resize(extent.recv, 1.0F);
  }
  [[nodiscard]] CallArguments arguments(Operator op) {
    const std::span<const float> in = op->has_one_buffer ? std::span(recv) : std::span(send);
    return {
        .type = DataType::float32, .in = std::as_bytes(in), .out = std::as_writable_bytes(std::span(recv))};
  }

  std::vector<float> send;
  std::vector<float> recv;
};

Task<> call(Communicator& comm, Operator op, std::size_t count = kCount) {
  Buffers buffers(op, comm, count);
  Collective made = comm.call(op, buffers.arguments(op));
  co_await std::move(made);
}

class GoingAhead : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] static CommunicatorOptions options() {
    CommunicatorOptions options;
    options.transport = GetParam();
    options.is_isolated = true;
    options.timeout = std::chrono::seconds(20);
    return options;
  }
  static void expect_mismatch(const std::vector<Outcome>& outcomes, const std::vector<std::string>& words) {
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      ASSERT_TRUE(outcomes[rank].error) << "rank " << rank << " got no error";
      EXPECT_EQ(outcomes[rank].error->kind(), ErrorKind::Mismatch) << outcomes[rank].error->what();
      for (const std::string& word : words) EXPECT_THAT(outcomes[rank].error->what(), HasSubstr(word));
    }
  }
};

/// Once with all, so that links are there. Then `ahead` is through before any other rank calls, which would
/// hang otherwise.
Task<> let_one_go_ahead(Communicator& comm, Operator op, Rank ahead, bool& is_through,
                        std::size_t count = kCount) {
  co_await call(comm, op, count);
  co_await comm.barrier();
  if (comm.rank() != ahead)
    while (!is_through && !comm.is_failed()) co_await comm.engine().sleep_for(std::chrono::milliseconds(1));
  co_await call(comm, op, count);
  if (comm.rank() == ahead) is_through = true;
  co_await comm.barrier();
}

TEST_P(GoingAhead, whoever_only_gives_waits_for_nobody) {
  struct Case {
    Operator op;
    Rank ahead;
  };
  for (const Case& one :
       {Case{operator_of<Broadcast>, 0}, Case{operator_of<Scatter>, 0}, Case{operator_of<Gather>, 2},
        Case{operator_of<Reduce>, 3}, Case{operator_of<Scan>, 0}}) {
    SCOPED_TRACE(to_string(one.op));
    bool is_through = false;  // of a world's processes one runs at a time
    const auto body = [&](Communicator& comm) {
      return let_one_go_ahead(comm, one.op, one.ahead, is_through);
    };
    test::run_ranks_in_world(kRanks, body, options());
  }
}

/// Whether others could have said where their data lies is nothing to a root that has not.
TEST(GoingAheadWithCores, a_root_whose_memory_is_private_waits_for_nobody) {
  constexpr std::size_t kLarge = 16'384;  // 64 KiB to all, which would stay where they are in mapped memory
  for (const Operator op : {operator_of<Broadcast>, operator_of<Scatter>}) {
    SCOPED_TRACE(to_string(op));
    bool is_through = false;
    const auto body = [&](Communicator& comm) -> Task<> {
      return let_one_go_ahead(comm, op, 0, is_through, kLarge / op.given_per_count(kRanks));
    };
    CommunicatorOptions options;
    options.is_isolated = true;
    options.algorithm = "slots";
    options.timeout = std::chrono::seconds(20);
    test::run_ranks_with_cores(kRanks, body, std::move(options));
  }
}

/// Many calls in a row: whoever goes ahead writes over nothing that others still read.
TEST_P(GoingAhead, what_was_given_is_there_for_whoever_comes_later) {
  const auto body = [](Communicator& comm) -> Task<> {
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<float> data(kCount, comm.rank() == 0 ? static_cast<float>(turn) : -1.0F);
      if (comm.rank() == 3) test::compute(comm.engine(), std::chrono::microseconds(50));
      co_await comm.broadcast(std::span<float>(data), 0);
      EXPECT_EQ(data.back(), static_cast<float>(turn));
      std::vector<float> all(comm.rank() == 1 ? kCount * kRanks : 0);
      std::ranges::fill(data, static_cast<float>(turn + 100 * comm.rank()));
      co_await comm.gather(std::span<const float>(data), std::span<float>(all), 1);
      for (Rank rank = 0; rank < kRanks && comm.rank() == 1; ++rank)
        EXPECT_EQ(all[rank * kCount], static_cast<float>(turn + 100 * rank));
    }
  };
  test::run_ranks_in_world(kRanks, body, options());
}

TEST_P(GoingAhead, another_call_of_one_rank_is_told_to_all_in_the_next_one) {
  const auto body = [](Communicator& comm) -> Task<> {
    const std::size_t count = comm.rank() == 2 ? kCount + 1 : kCount;
    co_await call(comm, operator_of<Gather>, count);
    co_await comm.barrier();
  };
  expect_mismatch(outcomes_of_ranks_in_world(kRanks, body, options()),
                  {"collective #1 ", "count differs", "rank 2 has 101", "have 100"});
}

TEST_P(GoingAhead, another_last_call_is_told_to_all_as_they_close) {
  const auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const Operator op = comm.rank() == 0 ? operator_of<Broadcast> : operator_of<Gather>;
    co_await call(comm, op);
  };
  expect_mismatch(outcomes_of_ranks_in_world(2, body, options()), {"collective #2 ", "operator differs"});
}

/// Neither rank of a pair gets anything, so nobody waits; what came of it lies in their connection.
TEST_P(GoingAhead, calls_that_both_only_give_are_found_to_differ_later) {
  const auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const Operator op = comm.rank() == 0 ? operator_of<Broadcast> : operator_of<Gather>;
    co_await call(comm, op);
    for (int turn = 0; turn < 3; ++turn) co_await comm.barrier();
  };
  expect_mismatch(outcomes_of_ranks_in_world(2, body, options()), {"collective #2 ", "operator differs"});
}

TEST_P(GoingAhead, what_is_found_between_a_call_and_the_end_is_told_at_the_end) {
  const auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const Operator op = comm.rank() == 0 ? operator_of<Broadcast> : operator_of<Gather>;
    co_await call(comm, op);
    co_await comm.engine().sleep_for(std::chrono::seconds(3));
  };
  expect_mismatch(outcomes_of_ranks_in_world(2, body, options()), {"collective #2 ", "operator differs"});
}

/// If it has left by the time that whoever went ahead closes: over links, whoever is there and has not come
/// is not waited for.
TEST_P(GoingAhead, who_leaves_a_call_short_is_named_to_whoever_went_ahead) {
  for (const bool leaves_first : {true, false}) {
    if (!leaves_first && std::string_view(GetParam()) != "shm") continue;
    const auto body = [leaves_first](Communicator& comm) -> Task<> {
      co_await comm.barrier();
      if (leaves_first == (comm.rank() == 0))
        co_await comm.engine().sleep_for(std::chrono::milliseconds(100));
      if (comm.rank() == 0) co_await call(comm, operator_of<Broadcast>);
    };
    const std::vector<Outcome> outcomes = outcomes_of_ranks_in_world(2, body, options());
    ASSERT_TRUE(outcomes[0].error) << leaves_first;
    EXPECT_EQ(outcomes[0].error->kind(), ErrorKind::PeerAborted) << outcomes[0].error->what();
    EXPECT_EQ(outcomes[0].error->culprit(), 1U);
  }
}

/// So many calls that whoever goes ahead could fill every buffer on the way.
constexpr int kManyCalls = 1000;

TEST_P(GoingAhead, whoever_goes_ahead_waits_for_a_late_rank_in_the_end) {
  const auto body = [](Communicator& comm) -> Task<> {
    for (int turn = 0; turn < kManyCalls; ++turn) {
      if (comm.rank() == 2 && turn == 10) test::compute(comm.engine(), std::chrono::seconds(2));
      std::vector<int> data(1, comm.rank() == 0 ? turn : -1);
      co_await comm.broadcast(std::span<int>(data), 0);
      EXPECT_EQ(data.front(), turn);
    }
  };
  test::run_ranks_in_world(kRanks, body, options());
}

TEST_P(GoingAhead, a_call_that_differed_long_ago_is_found_and_named) {
  const auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    for (int turn = 1; turn < kManyCalls; ++turn) {
      if (comm.rank() == 2 && turn == 50) test::compute(comm.engine(), std::chrono::seconds(2));
      const Rank root = comm.rank() == 2 && turn == 50 ? 2 : 0;
      std::vector<int> data(1);
      co_await comm.broadcast(std::span<int>(data), root);
    }
  };
  expect_mismatch(outcomes_of_ranks_in_world(kRanks, body, options()),
                  {"collective #51 ", "root differs", "rank 2 has 2", "ranks 0, 1, 3 have 0"});
}

/// It leaves all the same, and the others get what it gave.
TEST_P(GoingAhead, a_root_may_leave_before_the_others_come) {
  const auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(kCount);
    co_await comm.broadcast(std::span<float>(data), 0);
    if (comm.rank() != 0) co_await comm.engine().sleep_for(std::chrono::seconds(10));
    std::ranges::fill(data, comm.rank() == 0 ? 5.0F : 0.0F);
    co_await comm.broadcast(std::span<float>(data), 0);
    EXPECT_EQ(data.front(), 5.0F);
  };
  test::run_ranks_in_world(kRanks, body, options());
}

INSTANTIATE_TEST_SUITE_P(, GoingAhead, testing::Values("shm", "tcp"),
                         [](const testing::TestParamInfo<const char*>& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace cohort::going_ahead_test
