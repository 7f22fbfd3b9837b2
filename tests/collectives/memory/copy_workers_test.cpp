// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <cohort/collectives/memory/copy_workers.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace cohort {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(CopyWorkers, every_element_is_worked_on_once) {
  Engine engine;
  CopyWorkers workers(engine);
  workers.allow(3);
  std::vector<std::uint8_t> times(5 * kMiB + 17);
  for (std::uint8_t round = 1; round <= 50; ++round) {
    workers.share(times.size(), 4096, times.size(), [&](std::size_t begin, std::size_t end) {
      EXPECT_EQ(begin % 4096, 0U);
      for (std::size_t i = begin; i < end; ++i) ++times[i];
    });
    EXPECT_EQ(std::count(times.begin(), times.end(), round), static_cast<std::ptrdiff_t>(times.size()));
  }
}

TEST(CopyWorkers, a_small_step_is_one_range_on_the_calling_thread) {
  Engine engine;
  CopyWorkers workers(engine);
  workers.allow(3);
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  workers.share(1000, 64, CopyWorkers::kLeastBytes - 1,
                [&](std::size_t begin, std::size_t end) { ranges.emplace_back(begin, end); });
  EXPECT_EQ(ranges, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 1000}}));
}

TEST(CopyWorkers, without_permission_there_is_one_range_however_large) {
  Engine engine;
  CopyWorkers workers(engine);
  std::vector<std::size_t> ends;
  workers.share(64 * kMiB, 4096, 64 * kMiB, [&](std::size_t, std::size_t end) { ends.push_back(end); });
  EXPECT_EQ(ends, std::vector<std::size_t>{64 * kMiB});
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
}  // namespace cohort
