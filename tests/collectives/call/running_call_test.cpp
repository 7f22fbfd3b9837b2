// SPDX-License-Identifier: Apache-2.0
// Calls that are made of several messages fail as one: told by the caller's own call, its number and its
// part, and blamed on the rank that the others wait for.
#include <cohort/cohort.h>
#include <cohort/collectives/call/running_call.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace cohort::running_call_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Rank kOddOne = 2;
constexpr std::chrono::milliseconds kSlow(150);  // longer than what counts as a stall
constexpr std::chrono::seconds kForEver(60);

/// What the odd one's function does, by how often it was called on this rank.
thread_local Engine* engine_of_odd_one = nullptr;
thread_local std::size_t elements_seen = 0;
constexpr std::size_t kSlowAt = 1000;
constexpr std::size_t kHangsAt = 400'000;

const auto kSlowSum = reduction<float>([](float a, float b) {
  if (engine_of_odd_one != nullptr) {
    ++elements_seen;
    if (elements_seen == kSlowAt) test::compute(*engine_of_odd_one, kSlow);
    if (elements_seen == kHangsAt) test::compute(*engine_of_odd_one, kForEver);
  }
  return a + b;
});

std::vector<test::Outcome> outcomes_of_four(const char* transport, const RankFunction& body) {
  CommunicatorOptions options;
  const bool is_mixed = std::string_view(transport) == "shm_and_tcp";
  if (!is_mixed) options.transport = transport;
  options.is_isolated = true;
  return test::outcomes_of_ranks_in_world(4, body, std::move(options), is_mixed ? 2 : 1);
}

TEST(RunningCall, that_ranks_measure_after_is_told_instead_of_what_they_measure_by) {
  RunningOperation running;
  RunningCall call(running);
  call.begin();
  const std::string before = call.what();
  call.begin_measuring();
  running.signature.count = 16'384;
  EXPECT_EQ(call.text(), "measuring after " + before + " #1");
  call.end();
  call.begin();
  EXPECT_THAT(call.text(), Not(HasSubstr("measuring")));
}

class CallOfMessages : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<test::Outcome> outcomes(const RankFunction& body) {
    return outcomes_of_four(GetParam(), body);
  }
  /// Of all but the odd one, which may be in no state to say anything.
  static void expect_of_others(const std::vector<test::Outcome>& outcomes, ErrorKind kind,
                               std::uint64_t sequence, const std::vector<std::string>& words) {
    for (Rank rank = 0; rank < outcomes.size(); ++rank) {
      if (rank == kOddOne) continue;
      ASSERT_TRUE(outcomes[rank].error) << "rank " << rank;
      const Error& error = *outcomes[rank].error;
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_EQ(error.culprit(), kOddOne) << error.what();
      EXPECT_EQ(error.sequence(), sequence) << error.what();
      for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
    }
  }
};

/// It is slow in one message, in which all stall, and hangs in a later one.
TEST_P(CallOfMessages, whose_deadline_passes_in_a_late_one_blames_who_hangs_in_it) {
  auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    engine_of_odd_one = comm.rank() == kOddOne ? &comm.engine() : nullptr;
    std::vector<float> data(1'000'000, 1.0F);
    auto call = comm.all_reduce(data, kSlowSum).with_deadline(std::chrono::seconds(2));
    co_await std::move(call);
  };
  expect_of_others(outcomes(body), ErrorKind::DeadlineExceeded, 2,
                   {"all_reduce(a function on elements of digest ", ", count 1000000) #2 (message ",
                    "its message not begun so far by rank 2"});
}

TEST_P(CallOfMessages, counts_as_one_of_the_callers_calls) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::vector<float>> list(4, std::vector<float>(100'000, 1.0F));
    co_await comm.all_reduce(list, ReduceOp::sum);
    std::vector<float> large(300'000, 1.0F);
    co_await comm.all_reduce(large, kSlowSum);
    const std::vector<std::size_t> counts(comm.size(), 3);
    std::vector<float> in(12), out(12);
    co_await comm.all_to_all_v(in, counts, out, counts);
    co_await comm.all_reduce(large, scaled_sum(0.5));
    if (comm.rank() == kOddOne) co_return;
    co_await comm.all_reduce(large, ReduceOp::max);
  };
  expect_of_others(outcomes(body), ErrorKind::PeerAborted, 5,
                   {"left after collective #4, during all_reduce(float32 max, count 300000) #5 on"});
}

/// The list of one rank changes between making the call and awaiting it.
TEST_P(CallOfMessages, that_fails_before_its_first_is_told_by_its_own_name) {
  auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const std::vector<std::vector<float>> in(3, std::vector<float>(8, 1.0F));
    std::vector<std::vector<float>> out(3, std::vector<float>(8));
    auto call = comm.all_reduce(in, out, ReduceOp::sum);
    if (comm.rank() == kOddOne) out[1].resize(7);
    co_await std::move(call);
  };
  const std::vector<test::Outcome> all = outcomes(body);
  expect_of_others(
      all, ErrorKind::PeerAborted, 2,
      {"gave up in collective #2, all_reduce(float32 sum, 3 tensors) (before its first message): "
       "InvalidArgument: tensor 1 of 3: all_reduce with 32 bytes of input and 28 of output"});
  ASSERT_TRUE(all[kOddOne].error);
  EXPECT_EQ(all[kOddOne].error->kind(), ErrorKind::InvalidArgument);
}

TEST_P(CallOfMessages, about_whose_counts_ranks_disagree_is_told_as_it_was_called) {
  auto body = [](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const std::vector<std::size_t> expected(comm.size(), 3);
    std::vector<std::size_t> given = expected;
    if (comm.rank() == kOddOne) given[1] = 4;
    std::vector<float> in(comm.rank() == kOddOne ? 13 : 12), out(12);
    co_await comm.all_to_all_v(in, given, out, expected);
  };
  expect_of_others(outcomes(body), ErrorKind::Mismatch, 2,
                   {"all_to_all_v(float32, count lists of each rank's own) #2 (after message 1) on 'world': "
                    "rank 2 gives rank 1 4 elements, which expects 3"});
}

/// Sooner than anybody has said that it stalls.
TEST_P(CallOfMessages, or_of_one_with_a_short_deadline_blames_who_did_not_call) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(10);
    if (comm.rank() == kOddOne) {
      while (!comm.is_failed()) co_await comm.engine().sleep_for(std::chrono::milliseconds(5));
      throw Error(comm.failure());
    }
    auto call = comm.all_reduce(data, ReduceOp::sum).with_deadline(std::chrono::milliseconds(50));
    co_await std::move(call);
  };
  expect_of_others(outcomes(body), ErrorKind::DeadlineExceeded, 1,
                   {"all_reduce(float32 sum, count 10) #1 on 'world' was not finished within 0.050 s: not "
                    "called so far by rank 2"});
}

/// The same where the caller's own deadline is around the call.
TEST_P(CallOfMessages, or_of_one_within_a_short_deadline_blames_who_did_not_call) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(10);
    if (comm.rank() == kOddOne) {
      while (!comm.is_failed()) co_await comm.engine().sleep_for(std::chrono::milliseconds(5));
      throw Error(comm.failure());
    }
    Task<> call = with_deadline(std::chrono::milliseconds(50), Task<>(comm.all_reduce(data, ReduceOp::sum)));
    co_await call;
  };
  expect_of_others(outcomes(body), ErrorKind::DeadlineExceeded, 1, {"not called so far by rank 2"});
}

INSTANTIATE_TEST_SUITE_P(Everywhere, CallOfMessages, testing::Values("shm", "tcp", "shm_and_tcp"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cohort::running_call_test
