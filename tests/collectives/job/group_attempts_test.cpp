// SPDX-License-Identifier: Apache-2.0
// Ranks that give a group up and make it again, each in its own time: what meets at last was made together.
#include <cohort/cohort.h>
#include <cohort/engine/splitmix64.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cohort::group_attempts_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::error_of;
using test::kind_of;

constexpr int kMostAttempts = 200;

/// The first attempts are given up at any moment; the last ones have time to meet.
Duration patience(std::uint64_t draw, int attempt) {
  return attempt >= 10 ? Duration(seconds(5)) : Duration(microseconds(draw % 600));
}

/// What each member gives in this attempt comes to all of them, and no other attempt's.
Task<> expect_to_be_together(Communicator& group, std::uint64_t own) {
  std::vector<std::uint64_t> all(group.size());
  co_await group.all_gather(std::span<const std::uint64_t>(&own, 1), all);
  EXPECT_EQ(all[group.rank()], own);
  std::uint64_t digest = 0;
  for (const std::uint64_t one : all) digest = splitmix64(digest ^ one);
  std::array<std::uint64_t, 2> most{digest, ~digest};
  co_await group.all_reduce(most, ReduceOp::max);
  EXPECT_EQ(most[0], ~most[1]) << "ranks were given different data; rank " << group.rank();
}

/// One whole attempt: a member that gives up makes this one fail as well, whatever it is at.
Task<> attempt_at(Communicator& comm, Duration limit, std::uint64_t draw) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < comm.size(); ++rank) all.push_back(rank);
  Communicator group = co_await with_deadline(limit, comm.group(all, "again"));
  co_await expect_to_be_together(group, draw);
}

Task<> make_at_last(Communicator& comm, std::uint64_t seed) {
  std::uint64_t drawn = (seed << 32) + (std::uint64_t{comm.rank()} << 16);
  co_await comm.barrier();
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const std::uint64_t draw = splitmix64(++drawn);
    const auto error = co_await error_of(attempt_at(comm, patience(draw, attempt), draw));
    if (!error) co_return;
    co_await comm.engine().sleep_for(microseconds(splitmix64(++drawn) % 400));
  }
  ADD_FAILURE() << "rank " << comm.rank() << ": no attempt of " << kMostAttempts << " met the others'";
}

class GroupAttempts : public testing::TestWithParam<std::pair<Rank, Rank>> {};

TEST_P(GroupAttempts, that_cross_meet_at_last_and_never_read_what_is_anothers) {
  const auto [ranks, hosts] = GetParam();
  for (std::uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    test::run_ranks_in_world(
        ranks, [seed = seed](Communicator& comm) { return make_at_last(comm, seed); }, {}, hosts);
  }
}

/// Each tells the other, who is not there, why; nobody takes the echo of his own words for news.
TEST(GroupAttemptsInTurn, are_not_failed_by_the_echo_of_those_before) {
  const auto body = [](Communicator& comm) -> Task<> {
    const std::vector<Rank> both = {0, 1};
    co_await comm.barrier();
    if (comm.rank() == 0) {
      const auto error = co_await error_of(with_deadline(milliseconds(1), comm.group(both, "pair")));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded");
      co_await comm.engine().sleep_for(seconds(4));
    } else {
      co_await comm.engine().sleep_for(seconds(2));
      const auto error = co_await error_of(comm.group(both, "pair"));
      EXPECT_EQ(kind_of(error), "DeadlineExceeded") << "who comes late is told why";
      co_await comm.engine().sleep_for(seconds(4));
    }
    Communicator pair = co_await comm.group(both, "pair");
    co_await pair.barrier();
  };
  test::run_ranks_in_world(2, body);
  test::run_ranks_in_world(2, body, {}, 2);
}

/// In whatever state of the making: those who wait for another one do not stand for it.
TEST(GroupAttemptsInTurn, name_who_computes_meanwhile) {
  CommunicatorOptions options;
  options.timeout = seconds(1);
  int failed = 0;
  for (std::int64_t begun = 0; begun <= 120; begun += 3) {
    const auto body = [begun, &failed](Communicator& comm) -> Task<> {
      const std::vector<Rank> all = {0, 1, 2, 3};
      co_await comm.barrier();
      const auto make = [&]() -> Task<> {
        Communicator group = co_await comm.group(all, "half");
        if (comm.rank() != 3) co_await comm.engine().sleep_for(seconds(4));
      };
      const auto stop = [&]() -> Task<> {
        co_await comm.engine().sleep_for(microseconds(begun));
        if (comm.rank() == 3) test::compute(comm.engine(), seconds(3));
      };

      const auto both = [&]() -> Task<> { co_await when_all(make(), stop()); };
      const auto error = co_await error_of(both());
      if (!error || comm.rank() == 3) co_return;
      ++failed;
      EXPECT_EQ(kind_of(error), "DeadlineExceeded");
      EXPECT_EQ(error->culprit(), std::optional<Rank>(3)) << begun << " us: " << error->what();
    };
    test::run_ranks_in_world(4, body, options);
  }
  EXPECT_GT(failed, 0) << "no group was only half made";
}

INSTANTIATE_TEST_SUITE_P(Of, GroupAttempts,
                         testing::Values(std::pair<Rank, Rank>{2, 1}, std::pair<Rank, Rank>{2, 2},
                                         std::pair<Rank, Rank>{3, 1}, std::pair<Rank, Rank>{3, 2}),
                         [](const auto& test) {
                           return fmt::format("{}_ranks_of_{}_hosts", test.param.first, test.param.second);
                         });

}  // namespace
}  // namespace cohort::group_attempts_test
