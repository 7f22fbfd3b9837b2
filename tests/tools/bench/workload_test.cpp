// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/print.h>
#include <cohort/tools/bench/workload.h>

#include <cohort/collectives/run.h>

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace cohort::bench {

/// Found as GoogleTest prints parameters.
static void PrintTo(Exercise exercise, std::ostream* out) { *out << to_string(exercise); }

namespace workload_test {
namespace {

std::vector<Exercise> exercises_with_data() {
  std::vector<Exercise> list{Exercise::send_recv()};
  for (const Operator op : all_operators())
    if (op->has_data) list.push_back(op);
  return list;
}

Options options_of(Rank ranks) {
  Options options;
  options.exercises.assign(all_operators().begin(), all_operators().end());
  options.exercises.push_back(Exercise::send_recv());
  options.sizes_bytes = {4096, 100};
  options.ranks = ranks;
  return options;
}

/// The wrong elements of a collective that ran, and of one that was left out on all ranks.
struct Counts {
  std::size_t after_running = 0;
  std::size_t after_leaving_out = 0;
  std::size_t elements = 0;
};

/// Blocks of a rank's result, of as many as there are ranks, that it has without the operation.
std::size_t known_to(Exercise op, Rank rank, const Options& options, bool is_in_place) {
  const bool is_root = rank == options.root;
  if (op == operator_of<Broadcast> && is_root) return options.ranks;
  if (op == operator_of<ExclusiveScan> && rank == 0) return options.ranks;  // it gets nothing
  if (!is_in_place) return 0;
  if (op == operator_of<AllGather> || op == operator_of<AllGatherV>) return 1;
  if ((op == operator_of<Gather> || op == operator_of<GatherV>)&&is_root) return 1;
  if ((op == operator_of<Scatter> || op == operator_of<ScatterV>)&&is_root) return options.ranks;
  return op == operator_of<Scan> && rank == 0 ? options.ranks : 0;
}

class WorkloadTest : public ::testing::TestWithParam<std::tuple<Exercise, bool, bool>> {};

TEST_P(WorkloadTest, an_operation_that_did_not_happen_is_wrong) {
  const auto [op, is_in_place, is_shared] = GetParam();
  Options options = options_of(3);
  options.is_in_place = is_in_place;
  options.is_shared = is_shared;
  options.root = 2;
  const auto board = std::make_unique<Board>();
  std::vector<Counts> counts(options.ranks);
  auto body = [&, measured = op](Communicator& comm) -> Task<> {
    Workload workload(comm, options, *board);
    const Point point{measured, 4096};
    workload.select(point);
    workload.poison();
    workload.write_input(1);
    co_await workload.run();
    Counts& mine = counts[comm.rank()];
    mine.elements = measured->extent({workload.shape().count, options.ranks, options.root}, comm.rank()).recv;
    mine.after_running = workload.count_wrong();
    workload.poison();
    workload.write_input(2);
    mine.after_leaving_out = workload.count_wrong();
    co_await comm.barrier();
  };
  ASSERT_EQ(run_threads(options.ranks, body), 0);
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    EXPECT_EQ(counts[rank].after_running, 0U) << "rank " << rank;
    const std::size_t known =
        known_to(op, rank, options, is_in_place) * counts[rank].elements / options.ranks;
    // A sum in place may by chance be the value that was there before.
    const std::size_t by_chance = is_in_place && op->combines ? (counts[rank].elements - known) / 10 : 0;
    EXPECT_LE(counts[rank].after_leaving_out, counts[rank].elements - known) << "rank " << rank;
    EXPECT_GE(counts[rank].after_leaving_out, counts[rank].elements - known - by_chance) << "rank " << rank;
  }
}

std::string name_of(const ::testing::TestParamInfo<WorkloadTest::ParamType>& test) {
  const auto [op, is_in_place, is_shared] = test.param;
  return std::string(to_string(op)) + (is_in_place ? "_in_place" : "_out_of_place") +
         (is_shared ? "_shared" : "_private");
}

INSTANTIATE_TEST_SUITE_P(Operators, WorkloadTest,
                         ::testing::Combine(::testing::ValuesIn(exercises_with_data()), ::testing::Bool(),
                                            ::testing::Bool()),
                         name_of);

TEST(Workload, a_barrier_that_does_not_wait_is_wrong) {
  const Options options = options_of(2);
  const auto board = std::make_unique<Board>();
  std::size_t after_barrier = 0;
  std::size_t after_none = 0;
  auto body = [&](Communicator& comm) -> Task<> {
    Workload workload(comm, options, *board);
    workload.select(Point{});
    co_await workload.enter();
    Collective barrier = workload.make();
    co_await std::move(barrier);
    if (comm.rank() == 0) after_barrier = workload.count_wrong();
    co_await comm.barrier();
    if (comm.rank() == 0) {
      co_await workload.enter();
      after_none = workload.count_wrong();
    }
    co_await comm.barrier();
  };
  ASSERT_EQ(run_threads(options.ranks, body), 0);
  EXPECT_EQ(after_barrier, 0U);
  EXPECT_EQ(after_none, 1U);
}

TEST(StartLine, nobody_leaves_before_all_are_there_and_rank_0_answers_for_all) {
  constexpr Rank kRanks = 3;
  constexpr int kRounds = 300;
  for (const auto polls : {StartLine::Polls::spin, StartLine::Polls::yield, StartLine::Polls::once}) {
    const auto board = std::make_unique<Board>();
    std::atomic<int> entered{0};
    std::atomic<int> early{0};
    std::atomic<int> misled{0};
    const auto rank_of = [&](Rank rank) {
      StartLine line(*board, rank, kRanks, polls, 2);
      for (int round = 1; round <= kRounds; ++round) {
        ++entered;
        line.arrive(rank == 0 ? round % 3 == 0 : true);
        while (!line.is_released()) std::this_thread::yield();
        if (line.leave() != (round % 3 == 0)) ++misled;
        if (entered < round * static_cast<int>(kRanks)) ++early;
      }
    };
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < kRanks; ++rank) threads.emplace_back(rank_of, rank);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(early, 0);
    EXPECT_EQ(misled, 0);
  }
}

}  // namespace
}  // namespace workload_test
}  // namespace cohort::bench
