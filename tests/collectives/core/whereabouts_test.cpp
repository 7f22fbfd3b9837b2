// SPDX-License-Identifier: Apache-2.0
// What a deadline tells of the rank that is missing: in which call it is, or that nothing comes from its
// host.
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace cohort::whereabouts_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::vector<unsigned>> kHosts = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 2}};

CommunicatorOptions with_timeout(Duration timeout) {
  CommunicatorOptions options;
  options.timeout = timeout;
  return options;
}

world::Settings world_on(const std::vector<unsigned>& host_of) {
  world::Settings settings;
  settings.seed = 1;
  settings.host_of = host_of;
  return settings;
}

/// Of all ranks: the cause, which is one.
template <class Matcher>
void expect_all_told(const std::vector<test::Outcome>& outcomes, const Matcher& text) {
  for (Rank rank = 0; rank < outcomes.size(); ++rank) {
    ASSERT_TRUE(outcomes[rank].error) << "rank " << rank;
    EXPECT_EQ(outcomes[rank].error->kind(), ErrorKind::DeadlineExceeded);
    EXPECT_THAT(outcomes[rank].error->what(), text) << "rank " << rank;
  }
}

TEST(Whereabouts, of_a_rank_that_waits_in_a_recv_are_told_to_all_and_to_itself) {
  for (const std::vector<unsigned>& host_of : kHosts) {
    const auto body = [](Communicator& comm) -> Task<> {
      std::array<float, 2> values{};
      co_await comm.barrier();
      if (comm.rank() == 1)
        co_await comm.recv(values, 0, 2).with_deadline(1h);
      else
        co_await comm.all_reduce(values, ReduceOp::sum);
    };
    expect_all_told(
        test::outcomes_of_ranks_in_world(world_on(host_of), body, with_timeout(1s)),
        AllOf(HasSubstr("not called so far by rank 1 ("),
              HasSubstr("(rank 1: it is in recv of 8 bytes from rank 0 ("), HasSubstr("with tag 2)")));
  }
}

TEST(Whereabouts, of_two_that_both_send_first_are_told_with_what_to_do) {
  for (const std::vector<unsigned>& host_of : {std::vector<unsigned>{0, 0}, {0, 1}}) {
    const auto body = [](Communicator& comm) -> Task<> {
      std::vector<float> values(1 << 20);
      co_await comm.send(values, 1 - comm.rank(), 5);
      co_await comm.recv(values, 1 - comm.rank(), 5);
    };
    CommunicatorOptions options = with_timeout(1s);
    options.wording.at_once = "as its language has it";
    expect_all_told(
        test::outcomes_of_ranks_in_world(world_on(host_of), body, options),
        AllOf(ContainsRegex("send of 4194304 bytes to rank .* with tag 5 by rank .* on 'world' was not"),
              HasSubstr(": it is in send of 4194304 bytes to rank "),
              HasSubstr("where both ends send, one of them has to recv before it does, or both at the "
                        "same time, as its language has it, or give")));
  }
}

TEST(Whereabouts, of_a_rank_that_is_in_another_call_are_told_to_who_receives_from_it) {
  const auto body = [](Communicator& comm) -> Task<> {
    std::array<float, 2> values{};
    if (comm.rank() == 0)
      co_await comm.recv(values, 1, 2);
    else
      co_await comm.all_reduce(values, ReduceOp::sum).with_deadline(1h);
  };
  expect_all_told(test::outcomes_of_ranks_in_world(world_on({0, 1}), body, with_timeout(1s)),
                  HasSubstr("rank 1: it is in all_reduce(float32 sum, count 2) #1"));
}

/// Rank 3 waits for what rank 2 sent, and rank 1 for rank 3, while the other two are through.
TEST(Whereabouts, of_ranks_that_wait_for_each_other_as_they_join_nobody_is_blamed) {
  CommunicatorOptions options = with_timeout(3s);
  options.join.timeout = 20s;
  const auto body = [](Communicator& comm) -> Task<> {
    std::array<float, 2> values{};
    co_await comm.all_reduce(values, ReduceOp::sum);
  };
  int without_culprit = 0;
  for (std::uint64_t step = 20; step < 120; step += 2) {
    world::Settings settings = world_on({0, 0, 1, 2});
    settings.lost = {{.from = 2, .to = 3, .step = step}};
    for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(settings, body, options)) {
      if (!outcome.error) continue;
      const std::optional<Rank> culprit = outcome.error->culprit();
      EXPECT_TRUE(!culprit || culprit == 2U || culprit == 3U)
          << "step " << step << ": " << outcome.error->what();
      const std::string text = outcome.error->what();
      without_culprit += !culprit && text.find("rank 1: it has not joined yet") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GE(without_culprit, 1) << "these moments are none in which two ranks are through";
}

/// Rank 2 waits for what rank 0 sent, and rank 1, a call later, for rank 2.
TEST(Whereabouts, of_several_that_wait_the_one_is_blamed_that_has_come_least_far) {
  const auto body = [](Communicator& comm) -> Task<> {
    std::array<float, 2> own{};
    std::array<float, 6> of_all{};
    co_await comm.broadcast(own, 0);
    co_await comm.gather(own, of_all, 1);
    co_await comm.all_reduce(own, ReduceOp::sum);
  };
  int times = 0;
  for (std::uint64_t step = 20; step < 40; ++step) {
    world::Settings settings = world_on({0, 1, 2});
    settings.lost = {{.from = 0, .to = 2, .step = step}};
    const std::vector<test::Outcome> outcomes =
        test::outcomes_of_ranks_in_world(settings, body, with_timeout(3s));
    const std::string text = outcomes[0].error ? outcomes[0].error->what() : "";
    if (text.find("rank 1: it is in gather") == std::string::npos) continue;
    EXPECT_EQ(outcomes[0].error->culprit(), 2U) << "step " << step << ": " << text;
    times += text.find("rank 2: it is in broadcast") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(times, 1) << "these moments are none in which both wait and say so";
}

/// Both have waited for rank 0 a call earlier, and then hang: one answers, or computes.
TEST(Whereabouts, of_those_that_have_waited_before_and_hang_now_the_lowest_is_blamed) {
  for (const bool do_answer : {true, false}) {
    const auto body = [do_answer](Communicator& comm) -> Task<> {
      std::array<float, 2> values{};
      co_await comm.all_reduce(values, ReduceOp::sum);
      if (comm.rank() == 0) co_await comm.engine().sleep_for(600ms);
      co_await comm.all_reduce(values, ReduceOp::sum);
      const bool hangs = comm.rank() == 1 || comm.rank() == 2;
      if (hangs && do_answer) co_await comm.engine().sleep_for(30s);
      if (hangs && !do_answer) test::compute(comm.engine(), 30s);
      co_await comm.all_reduce(values, ReduceOp::sum);
    };
    for (const std::vector<unsigned>& host_of : {std::vector<unsigned>{0, 0, 0, 0}, {0, 1, 2, 3}}) {
      const std::vector<test::Outcome> outcomes =
          test::outcomes_of_ranks_in_world(world_on(host_of), body, with_timeout(3s));
      for (const Rank rank : {0U, 3U}) {
        ASSERT_TRUE(outcomes[rank].error) << "rank " << rank;
        EXPECT_EQ(outcomes[rank].error->culprit(), 1U) << outcomes[rank].error->what();
      }
    }
  }
}

/// Both ways, as when a cable is pulled out.
TEST(Whereabouts, a_host_from_which_nothing_comes_is_told_from_a_rank_that_computes) {
  constexpr Rank kAway = 2;
  for (const bool is_cut : {false, true}) {
    world::Settings settings = world_on({0, 0, 1});
    for (const world::Process process : {0U, 1U}) {
      if (!is_cut) continue;
      settings.lost.push_back({.from = process, .to = kAway, .since = 20s});
      settings.lost.push_back({.from = kAway, .to = process, .since = 20s});
    }
    const auto body = [](Communicator& comm) -> Task<> {
      std::array<float, 2> values{};
      co_await comm.all_reduce(values, ReduceOp::sum);
      co_await comm.engine().sleep_for(30s);
      if (comm.rank() == kAway) test::compute(comm.engine(), 60s);
      co_await comm.all_reduce(values, ReduceOp::sum).with_deadline(3s);
    };
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(settings, body);
    for (const Rank rank : {0U, 1U}) {
      ASSERT_TRUE(outcomes[rank].error) << "rank " << rank;
      const std::string text = outcomes[rank].error->what();
      EXPECT_THAT(text, HasSubstr("not called so far by rank 2 ("));
      if (is_cut)
        EXPECT_THAT(text,
                    ::testing::ContainsRegex("rank 2: nothing has come from its host for [23]\\.[0-9] s"));
      else
        EXPECT_THAT(text, Not(HasSubstr("nothing has come")));
    }
  }
}

}  // namespace
}  // namespace cohort::whereabouts_test
