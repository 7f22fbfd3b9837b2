// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <cohort/collectives/memory/copy_workers.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace cohort::copy_workers_test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(CopyWorkers, every_element_is_worked_on_once) {
  Engine engine;
  CopyWorkers workers(engine);
  workers.allow(3);
  if (!workers.may_help(CopyWorkers::kLeastBytes)) GTEST_SKIP() << "there is one core";
  std::vector<std::uint8_t> times(5 * kMiB + 17);
  const CopyWorkers::Work work = [&](std::size_t begin, std::size_t end) {
    EXPECT_EQ(begin % 4096, 0U);
    for (std::size_t i = begin; i < end; ++i) ++times[i];
    return true;
  };
  for (std::uint8_t round = 1; round <= 50; ++round) {
    EXPECT_TRUE(engine.run(workers.share(times.size(), 4096, times.size(), work)));
    EXPECT_EQ(std::count(times.begin(), times.end(), round), static_cast<std::ptrdiff_t>(times.size()));
  }
}

TEST(CopyWorkers, one_step_is_shared_at_a_time_and_a_cancelled_one_leaves_nobody_at_work) {
  Engine engine;
  CopyWorkers workers(engine);
  workers.allow(3);
  if (!workers.may_help(CopyWorkers::kLeastBytes)) GTEST_SKIP() << "there is one core";
  constexpr std::size_t kBytes = 64 * kMiB;
  std::atomic<std::size_t> at_work{0};
  std::atomic<std::size_t> worked{0};
  CancelScope scope;
  const CopyWorkers::Work work = [&](std::size_t begin, std::size_t end) {
    ++at_work;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    worked += end - begin;
    --at_work;
    return true;
  };
  auto body = [&]() -> Task<> {
    TaskScope other;
    auto cancel = [&]() -> Task<> {
      EXPECT_FALSE(workers.may_help(kBytes));
      scope.cancel();
      co_return;
    };
    auto wait = [&]() -> Task<> {
      co_await engine.sleep_for(Duration::zero());
      co_await cancel();
    };
    other.spawn(wait());
    bool was_cancelled = false;
    try {
      [[maybe_unused]] const bool is_whole =
          co_await with_scope(scope, workers.share(kBytes, 4096, kBytes, work));
    } catch (const Error& error) {
      was_cancelled = error.kind() == ErrorKind::Cancelled;
    }
    EXPECT_TRUE(was_cancelled);
    EXPECT_EQ(at_work, 0U);
    EXPECT_LT(worked, kBytes);
    EXPECT_TRUE(workers.may_help(kBytes));
    co_await other.join();
  };
  engine.run(body());
}

/// As when a peer withdraws the memory: what the others have begun by then is all that is still done. In the
/// first steps help is tried and not.
TEST(CopyWorkers, a_step_that_may_not_go_on_is_left_by_all) {
  Engine engine;
  CopyWorkers workers(engine);
  constexpr unsigned kHelpers = 3;
  workers.allow(kHelpers);
  if (!workers.may_help(CopyWorkers::kLeastBytes)) GTEST_SKIP() << "there is one core";
  constexpr std::size_t kBytes = 64 * kMiB;
  for (int step = 0; step < 4; ++step) {
    std::atomic<bool> is_withdrawn{false};
    std::atomic<unsigned> worked_on{0};
    const CopyWorkers::Work work = [&](std::size_t, std::size_t) {
      if (is_withdrawn) return false;
      ++worked_on;
      is_withdrawn = true;
      return true;
    };
    EXPECT_FALSE(engine.run(workers.share(kBytes, 4096, kBytes, work)));
    EXPECT_LE(worked_on, 1 + kHelpers);
  }
}

TEST(CopyWorkers, small_steps_and_those_of_ranks_without_permission_are_not_shared) {
  Engine engine;
  CopyWorkers workers(engine);
  EXPECT_FALSE(workers.may_help(64 * kMiB));
  workers.allow(3);
  EXPECT_FALSE(workers.may_help(CopyWorkers::kLeastBytes - 1));
}

TEST(CopyWorkers, only_cores_that_no_rank_needs_are_used) {
  EXPECT_EQ(CopyWorkers::most_for(0), 0U);
  EXPECT_EQ(CopyWorkers::most_for(2), 0U);
  EXPECT_EQ(CopyWorkers::most_for(1), 0U);
  EXPECT_EQ(CopyWorkers::most_for(0.51), 0U);
  EXPECT_EQ(CopyWorkers::most_for(0.5), 1U);
  EXPECT_EQ(CopyWorkers::most_for(1.0 / 3), 2U);
  EXPECT_EQ(CopyWorkers::most_for(1.0 / 64), 3U);
}

/// Large steps of every kind: shares of mapped memory, staging of private memory.
TEST(CopyWorkers, large_collectives_are_right_with_their_help) {
  for (const bool is_isolated : {false, true}) {
    CommunicatorOptions options;
    options.is_isolated = is_isolated;
    options.copy_threads = 2;
    const auto body = [](Communicator& comm) -> Task<> {
      std::vector<std::int32_t> data(3 * kMiB + 5);
      for (int round = 0; round < 3; ++round) {
        std::iota(data.begin(), data.end(), static_cast<std::int32_t>(comm.rank()));
        co_await comm.all_reduce(std::span(data), ReduceOp::sum);
        for (std::size_t i = 0; i < data.size(); ++i) {
          const auto expected = static_cast<std::int32_t>(2 * i + 1);
          if (data[i] == expected) continue;
          ADD_FAILURE() << "rank " << comm.rank() << ": at " << i << " got " << data[i];
          break;
        }
      }
    };
    test::run_ranks(2, body, std::move(options));
  }
}

}  // namespace
}  // namespace cohort::copy_workers_test
