// SPDX-License-Identifier: Apache-2.0
// Two jobs at one address, in virtual time.
#include <cohort/net/join/join.h>

#include <cohort/engine/when_all.h>
#include <cohort/net/auth/secret_handover.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_engine.h>

namespace cohort::two_jobs_test {
namespace {

using ::cohort::test::fresh_unix_address;
using ::cohort::test::join_into;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::cohort::test::open_descriptors;
using ::cohort::test::world_of;

std::string text_of(const Joined& joined) { return joined.error ? joined.error->what() : "joined"; }

/// Descriptors are back where they were, whatever happened.
class TwoJobs : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(open_descriptors(), before_); }

  test::WorldEngine engine_;
  const std::size_t before_ = open_descriptors();
};

/// What became of the ranks of two jobs of two that come to one address one after the other: ranks[i] at i
/// steps.
std::vector<Joined> two_jobs(Engine& engine, const std::vector<Rank>& ranks, Duration step) {
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  std::vector<Joined> joined(ranks.size());
  auto come = [&](std::size_t index) -> Task<> {
    JoinOptions options = std::move(world_of(2, world[0].address)[ranks[index]]);
    co_await engine.sleep_for(static_cast<Duration::rep>(index) * step);
    co_await join_into(engine, std::move(options), joined[index]);
  };
  auto everybody = [&]() -> Task<> {
    std::vector<Task<>> all;
    for (std::size_t i = 0; i < ranks.size(); ++i) all.push_back(come(i));
    co_await when_all(all);
  };
  engine.run(everybody());
  return joined;
}

TEST_F(TwoJobs, two_jobs_that_come_to_one_address_at_about_the_same_time_both_run) {
  std::vector<Rank> ranks = {0, 0, 1, 1};
  do {
    for (const Duration step : {Duration::zero(), Duration(std::chrono::milliseconds(40))})
      for (const Joined& one : two_jobs(engine_, ranks, step)) EXPECT_TRUE(one.membership) << text_of(one);
  } while (std::ranges::next_permutation(ranks).found);
}

TEST_F(TwoJobs, of_two_jobs_that_come_to_one_address_one_runs_and_the_other_is_told) {
  std::vector<Rank> ranks = {0, 0, 1, 1};
  do {
    std::size_t in = 0;
    for (const Joined& one : two_jobs(engine_, ranks, std::chrono::milliseconds(900))) {
      in += one.membership ? 1 : 0;
      if (one.membership) continue;
      const bool finds_nobody = one.error->kind() == ErrorKind::MissingRanks;
      EXPECT_TRUE(finds_nobody || one.error->kind() == ErrorKind::DuplicateRank) << text_of(one);
      EXPECT_TRUE(finds_nobody || text_of(one).find("COHORT_NAME") != std::string::npos) << text_of(one);
    }
    EXPECT_GE(in, 2U) << "ranks in the order " << ::testing::PrintToString(ranks);
  } while (std::ranges::next_permutation(ranks).found);
}

TEST_F(TwoJobs, a_rank_that_comes_when_all_are_there_is_sent_away_and_disturbs_nobody) {
  const std::vector<Joined> joined = two_jobs(engine_, {0, 1, 1}, Duration::zero());
  std::size_t in = 0;
  for (const Joined& one : joined) {
    in += one.membership ? 1 : 0;
    EXPECT_EQ(kind_of(one.error), one.membership ? "no error" : "DuplicateRank") << text_of(one);
  }
  EXPECT_EQ(in, 2U);
}

TEST_F(TwoJobs, the_secret_of_a_rank_0_that_has_gone_is_not_used_for_the_next_one) {
  std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
  std::vector<Joined> joined(2);
  auto one_goes_and_another_one_comes = [&]() -> Task<> {
    {
      Listener listener(engine_, Address::parse(world[0].address));
      Socket socket = co_await listener.accept();
      const Secret secret = Secret::random();
      const auto refusal = co_await offer_secret(socket, secret, true, "the test");
      EXPECT_FALSE(refusal);
      std::array<std::byte, 1> first_of_the_hello{};
      co_await socket.receive(first_of_the_hello);
    }
    co_await join_into(engine_, std::move(world[0]), joined[0]);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(one_goes_and_another_one_comes(), join_into(engine_, std::move(world[1]), joined[1]));
  };
  engine_.run(everybody());
  for (const Joined& one : joined) EXPECT_TRUE(one.membership) << text_of(one);
}

}  // namespace
}  // namespace cohort::two_jobs_test
