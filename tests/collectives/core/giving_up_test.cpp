// SPDX-License-Identifier: Apache-2.0
// Who gives a call up amid the bytes of a link closes that link at once, and says why later: nobody takes
// that for a fault of the network, however long the one or the other is kept from going on meanwhile.
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace cohort::giving_up_test {
namespace {

using namespace std::chrono_literals;

constexpr Rank kGivesUp = 2;

/// Which rank stands still from the moment on at which the call is given up.
class GivingUp : public ::testing::TestWithParam<Rank> {};

TEST_P(GivingUp, is_told_as_what_it_is) {
  const Rank still = GetParam();
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    world::Settings settings;
    settings.seed = seed;
    settings.host_of = {0, 1, 2};
    const auto body = [still](Communicator& comm) -> Task<> {
      co_await comm.barrier();
      const TimePoint moment = after(comm.engine().now(), 5ms);
      std::vector<float> values(4'000'000, 1.0F);
      auto reduce = [&]() -> Task<> { co_await comm.all_reduce(values, ReduceOp::sum); };
      auto give_up = [&]() -> Task<> { co_await with_deadline(moment - comm.engine().now(), reduce()); };
      auto stand_still = [&]() -> Task<> {
        co_await comm.engine().sleep_until(moment);
        co_await comm.engine().sleep_for(Duration::zero());
        if (comm.rank() == still) test::compute(comm.engine(), 2s);
      };
      Task<> call = comm.rank() == kGivesUp ? give_up() : reduce();
      co_await when_all(std::move(call), stand_still());
    };
    const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(settings, body);
    for (Rank rank = 0; rank < 3; ++rank) {
      const std::optional<Error>& error = outcomes[rank].error;
      ASSERT_TRUE(error) << "rank " << rank << ", seed " << seed;
      const ErrorKind kind = error->kind();
      EXPECT_TRUE(kind == ErrorKind::DeadlineExceeded || kind == ErrorKind::PeerAborted)
          << "rank " << rank << ", seed " << seed << ": " << error->what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(StandsStill, GivingUp, ::testing::Values(0U, 1U, 2U));

}  // namespace
}  // namespace cohort::giving_up_test
