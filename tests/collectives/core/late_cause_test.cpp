// SPDX-License-Identifier: Apache-2.0
// A rank that fails as it joins tells why before it waits for those who touch its memory.
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>
#include <cohort/tests/support/world_run.h>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

namespace cohort::late_cause_test {
namespace {

using namespace std::chrono_literals;
using ::cohort::test::error_of;

constexpr Rank kRanks = 3;
constexpr Rank kStopped = 1;
/// Of rank 0; the others have more.
constexpr Duration kPatience = 2s;

struct Joining {
  std::optional<Error> error;
  Duration took{};
};

/// Rank 1 stops for ever at that step, and says nothing.
std::array<Joining, kRanks> join_with_stopped(std::uint64_t step) {
  world::Settings settings;
  settings.seed = step;
  settings.host_of = {0, 0, 0};
  settings.has_core_each = true;
  settings.dead = {{.process = kStopped, .step = step, .is_silent = true}};
  std::array<Joining, kRanks> joined;
  std::vector<std::function<void(Engine&)>> bodies;
  for (Rank rank = 0; rank < kRanks; ++rank)
    bodies.emplace_back([&joined, rank](Engine& engine) {
      CommunicatorOptions options;
      options.join.rank = rank;
      options.join.size = kRanks;
      options.join.address = "unix:late-cause";
      options.join.timeout = rank == 0 ? kPatience : 60s;
      auto join = [&]() -> Task<> {
        Communicator comm = co_await Communicator::join(engine, options);
        co_await comm.close();
      };
      const TimePoint start = engine.now();
      auto whole = [&]() -> Task<> {
        const std::optional<Error> error = co_await error_of(join());
        joined[rank] = {error, engine.now() - start};
      };
      engine.run(whole());
    });
  test::run_world(settings, bodies);
  return joined;
}

TEST(LateCause, of_a_rank_that_stopped_amid_a_touch_is_told_before_it_is_waited_for) {
  constexpr Duration kLongestTouch = 5s;
  int told = 0;
  for (std::uint64_t step = 240; step < 400; step += 4) {
    const std::array<Joining, kRanks> joined = join_with_stopped(step);
    if (!joined[0].error || joined[0].error->kind() != ErrorKind::PeerSilent) continue;
    ++told;
    ASSERT_TRUE(joined[2].error) << "step " << step;
    EXPECT_LT(joined[2].took, kPatience + kLongestTouch + 2s)
        << "step " << step << ": " << joined[2].error->what();
  }
  EXPECT_GT(told, 0);
}

}  // namespace
}  // namespace cohort::late_cause_test
