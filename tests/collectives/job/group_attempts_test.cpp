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
#include <utility>
#include <vector>

namespace cohort::group_attempts_test {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using test::error_of;

constexpr int kMostAttempts = 200;

/// The first attempts are given up at any moment; the last ones have time to meet.
Duration patience(std::uint64_t draw, int attempt) {
  return attempt >= 10 ? Duration(seconds(5)) : Duration(microseconds(draw % 600));
}

Task<> sum_in(Communicator& group) {
  std::array<int, 4> data{};
  data.fill(static_cast<int>(group.rank()) + 1);
  co_await group.all_reduce(data, ReduceOp::sum);
  const int expected = static_cast<int>(group.size() * (group.size() + 1) / 2);
  EXPECT_EQ(data, (std::array<int, 4>{expected, expected, expected, expected})) << "rank " << group.rank();
}

/// One whole attempt: a member that gives up makes this one fail as well, whatever it is at.
Task<> attempt_at(Communicator& comm, Duration limit) {
  std::vector<Rank> all;
  for (Rank rank = 0; rank < comm.size(); ++rank) all.push_back(rank);
  Communicator group = co_await with_deadline(limit, comm.group(all, "again"));
  co_await sum_in(group);
}

Task<> make_at_last(Communicator& comm, std::uint64_t seed) {
  std::uint64_t drawn = (seed << 32) + (std::uint64_t{comm.rank()} << 16);
  co_await comm.barrier();
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const auto error = co_await error_of(attempt_at(comm, patience(splitmix64(++drawn), attempt)));
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

INSTANTIATE_TEST_SUITE_P(Of, GroupAttempts,
                         testing::Values(std::pair<Rank, Rank>{2, 1}, std::pair<Rank, Rank>{2, 2},
                                         std::pair<Rank, Rank>{3, 1}, std::pair<Rank, Rank>{3, 2}),
                         [](const auto& test) {
                           return fmt::format("{}_ranks_of_{}_hosts", test.param.first, test.param.second);
                         });

}  // namespace
}  // namespace cohort::group_attempts_test
