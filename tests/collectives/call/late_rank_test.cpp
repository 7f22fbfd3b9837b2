// SPDX-License-Identifier: Apache-2.0
// A rank that computes, loads its data or is stopped for a while is late, and nothing else.
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <array>

namespace cohort {
namespace {

/// Who is late, on how many hosts the four ranks live.
using Lateness = std::tuple<Rank, Rank>;

class LateRank : public ::testing::TestWithParam<Lateness> {};

TEST_P(LateRank, of_its_first_collective_and_of_the_next_fails_nothing) {
  const Rank late = std::get<0>(GetParam());
  const auto body = [late](Communicator& comm) -> Task<> {
    for (int round = 0; round < 2; ++round) {
      if (comm.rank() == late) test::compute(comm.engine(), std::chrono::seconds(60));
      const std::array in{1.0F, static_cast<float>(comm.rank())};
      std::array<float, 2> out{};
      co_await comm.all_reduce(in, out, ReduceOp::sum);
      EXPECT_EQ(out, (std::array{4.0F, 6.0F}));
    }
  };
  test::run_ranks_in_world(4, body, {}, std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Everybody, LateRank,
                         ::testing::Combine(::testing::Values(0U, 1U, 3U), ::testing::Values(1U, 2U, 4U)),
                         [](const auto& of) {
                           return "rank_" + std::to_string(std::get<0>(of.param)) + "_on_" +
                                  std::to_string(std::get<1>(of.param)) + "_hosts";
                         });

}  // namespace
}  // namespace cohort
