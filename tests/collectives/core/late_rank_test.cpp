// SPDX-License-Identifier: Apache-2.0
// A rank that computes, loads its data or is stopped for a while is late, and nothing else.
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

namespace cohort::late_rank_test {
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

/// The dead rank's listener is gone as well, so that a third rank that connects to it is refused at once, and
/// nobody on its host can say that it is dead.
TEST(DeadRank, whose_host_mate_is_busy_is_dead_to_the_rank_that_connects_to_it_too) {
  int deaths = 0;
  int jobs_that_joined = 0;
  for (std::uint64_t step = 40; jobs_that_joined < 80; step += jobs_that_joined == 0 ? 25 : 3) {
    ASSERT_LT(step, 100'000U) << "joining takes more steps than are tried";
    world::Settings settings;
    settings.seed = step;
    settings.host_of = {0, 0, 1};
    settings.dead = {{.process = 0, .step = step}};
    std::array<bool, 3> has_joined{};
    bool lives_on = false;
    const auto body = [&](Communicator& comm) -> Task<> {
      has_joined[comm.rank()] = true;
      if (comm.rank() == 0) {
        const TimePoint start = comm.engine().now();
        for (int i = 0; i < 18; ++i) co_await comm.engine().sleep_for(std::chrono::milliseconds(1));
        lives_on = comm.engine().now() < start + std::chrono::seconds(1);  // dead ranks go on at the very end
      }
      if (comm.rank() == 1) test::compute(comm.engine(), std::chrono::seconds(2));
      if (comm.rank() == 2) co_await comm.engine().sleep_for(std::chrono::milliseconds(20));
      std::vector<float> values(1000, 1.0F);
      co_await comm.all_reduce(values, ReduceOp::sum);
    };
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(settings, body);
    if (!has_joined[0] || !has_joined[1] || !has_joined[2]) continue;
    ++jobs_that_joined;
    if (lives_on) continue;
    ++deaths;
    for (const Rank rank : {1U, 2U}) {
      const std::optional<Error>& error = outcomes[rank].error;
      ASSERT_TRUE(error) << "rank " << rank << ", step " << step;
      EXPECT_EQ(error->kind(), ErrorKind::PeerDied)
          << "rank " << rank << ", step " << step << ": " << error->what();
      EXPECT_EQ(error->culprit(), Rank{0});
    }
  }
  EXPECT_GT(deaths, 0);
}

/// It has come to the collective, as ranks of its host can see; then its engine stands still.
TEST(SilentRank, is_named_by_all_others_wherever_they_live) {
  const std::vector<std::vector<unsigned>> hosts_of = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 2}};
  for (const std::vector<unsigned>& host_of : hosts_of) {
    constexpr Rank kSilent = 1;
    world::Settings settings;
    settings.seed = 1;
    settings.host_of = host_of;
    CommunicatorOptions options;
    options.timeout = std::chrono::seconds(1);
    const auto body = [](Communicator& comm) -> Task<> {
      co_await comm.barrier();
      std::vector<float> values(2'000'000, 1.0F);
      auto reduce = [&]() -> Task<> { co_await comm.all_reduce(values, ReduceOp::sum); };
      auto stand_still = [&]() -> Task<> {
        co_await comm.engine().sleep_for(std::chrono::milliseconds(200));
        if (comm.rank() == kSilent) test::compute(comm.engine(), std::chrono::seconds(20));
      };
      if (comm.rank() != kSilent) co_await comm.engine().sleep_for(std::chrono::milliseconds(300));
      co_await when_all(reduce(), stand_still());
    };
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(settings, body, options);
    for (Rank rank = 0; rank < outcomes.size(); ++rank) {
      const std::optional<Error>& error = outcomes[rank].error;
      ASSERT_TRUE(error) << "rank " << rank;
      EXPECT_EQ(error->kind(), ErrorKind::DeadlineExceeded) << error->what();
      EXPECT_EQ(error->culprit(), kSilent) << "rank " << rank << ": " << error->what();
      EXPECT_THAT(error->what(), ::testing::HasSubstr("whether it is stopped"));
    }
  }
}

/// Of several that say nothing, one may be stopped and the others compute.
TEST(SilentRank, is_not_singled_out_among_several) {
  for (const std::vector<unsigned>& host_of : {std::vector<unsigned>{0, 0, 0, 0}, {0, 0, 1, 1}}) {
    world::Settings settings;
    settings.seed = 1;
    settings.host_of = host_of;
    CommunicatorOptions options;
    options.timeout = std::chrono::seconds(1);
    const auto body = [](Communicator& comm) -> Task<> {
      co_await comm.barrier();
      const bool is_silent = comm.rank() == 1 || comm.rank() == 2;
      std::vector<float> values(2'000'000, 1.0F);
      auto reduce = [&]() -> Task<> { co_await comm.all_reduce(values, ReduceOp::sum); };
      auto stand_still = [&]() -> Task<> {
        co_await comm.engine().sleep_for(std::chrono::milliseconds(200));
        if (is_silent) test::compute(comm.engine(), std::chrono::seconds(20));
      };
      if (!is_silent) co_await comm.engine().sleep_for(std::chrono::milliseconds(300));
      co_await when_all(reduce(), stand_still());
    };
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(settings, body, options);
    for (const Rank rank : {0U, 3U}) {
      const std::optional<Error>& error = outcomes[rank].error;
      ASSERT_TRUE(error) << "rank " << rank;
      EXPECT_EQ(error->kind(), ErrorKind::DeadlineExceeded) << error->what();
      EXPECT_EQ(error->culprit(), std::nullopt) << error->what();
      EXPECT_THAT(error->what(),
                  ::testing::ContainsRegex("no answer comes from rank 1 .*, rank 2 .*; find out which is"));
    }
  }
}

/// As `deadline - now` is, for whoever is late himself: no wait of ten minutes.
TEST(Deadline, that_is_over_before_the_call_ends_what_has_to_be_waited_for) {
  world::Settings settings;
  settings.host_of = {0, 0};
  for (const Duration over : {Duration(0), Duration(std::chrono::seconds(-1))}) {
    const auto collective = [&](Communicator& comm) -> Task<> {
      std::vector<float> values(8, 1.0F);
      if (comm.rank() == 1) co_await comm.engine().sleep_for(std::chrono::minutes(1));
      co_await comm.all_reduce(values, ReduceOp::sum).with_deadline(over);
    };
    const auto message = [&](Communicator& comm) -> Task<> {
      float value = 0;
      if (comm.rank() == 1) co_await comm.engine().sleep_for(std::chrono::minutes(1));
      if (comm.rank() == 0) co_await comm.recv(std::span(&value, 1), 1, 7).with_deadline(over);
    };
    for (const auto& outcomes : {test::outcomes_of_ranks_in_world(settings, collective),
                                 test::outcomes_of_ranks_in_world(settings, message)}) {
      ASSERT_TRUE(outcomes[0].error);
      EXPECT_EQ(outcomes[0].error->kind(), ErrorKind::DeadlineExceeded) << outcomes[0].error->what();
    }
  }
}

/// What to do says nothing of a rank where none is named, and of several where several are.
TEST(Deadline, of_a_call_tells_what_to_look_at) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = {0, 1, 2};
  settings.bytes_per_ns = 1e-4;  // a network that is too slow for it
  CommunicatorOptions options;
  options.timeout = std::chrono::seconds(1);
  const auto text_of_rank_0 = [&](const auto& body) {
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(settings, body, options);
    return std::string(outcomes[0].error ? outcomes[0].error->what() : "no error");
  };
  const auto reduce = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    std::vector<float> values(2'000'000, 1.0F);
    co_await comm.all_reduce(values, ReduceOp::sum);
  };
  EXPECT_THAT(text_of_rank_0(reduce),
              ::testing::HasSubstr("all ranks have called it and wait for data; look at the network"));
  const auto reduce_at_rank_0 = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    if (comm.rank() != 0) co_await comm.engine().sleep_for(std::chrono::seconds(20));
    std::vector<float> values(10, 1.0F);
    co_await comm.all_reduce(values, ReduceOp::sum);
  };
  EXPECT_THAT(
      text_of_rank_0(reduce_at_rank_0),
      ::testing::ContainsRegex("not called so far by rank 1 .*, rank 2 .*; find out what those ranks"));
}

INSTANTIATE_TEST_SUITE_P(Everybody, LateRank,
                         ::testing::Combine(::testing::Values(0U, 1U, 3U), ::testing::Values(1U, 2U, 4U)),
                         [](const auto& of) {
                           return "rank_" + std::to_string(std::get<0>(of.param)) + "_on_" +
                                  std::to_string(std::get<1>(of.param)) + "_hosts";
                         });

}  // namespace
}  // namespace cohort::late_rank_test
