// SPDX-License-Identifier: Apache-2.0
// After warm-up a collective allocates nothing: counted through the global operator new.
#include <cohort/cohort.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

std::atomic<bool> is_counting{false};
std::atomic<std::size_t> allocations{0};

void* counted(std::size_t bytes) {
  if (is_counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace cohort::no_allocation_test {
namespace {

/// Of warming up, and then as many that are counted.
constexpr int kRounds = 100;
constexpr int kRoundsOfLarge = 30;
constexpr std::size_t kLarge = 200'000;

struct Buffers {
  explicit Buffers(std::size_t count, Rank ranks)
      : one(count * ranks),
        all(count * ranks),
        counts{count, count / 2},
        pair_counts{count / 2, count / 2},
        lists{{one.data(), 1}, {one.data() + 1, 2}, {one.data() + 3, count - 3}},
        lists_of_all{{all.data(), ranks}, {all.data() + ranks, ranks}, {}} {}
  std::vector<float> one;
  std::vector<float> all;
  std::vector<std::size_t> counts;       ///< of two ranks
  std::vector<std::size_t> pair_counts;  ///< between two ranks
  std::vector<std::span<float>> lists;   ///< of tensors: two small ones, one that may be large
  std::vector<std::span<float>> lists_of_all;
};

// Several tasks, so that none of their own frames is larger than those that are recycled.

Task<> plain_collectives(Communicator& comm, Buffers& buffers) {
  const std::span<float> one(buffers.one);
  co_await comm.barrier();
  co_await comm.all_reduce(one, ReduceOp::max);
  co_await comm.broadcast(one, 0);
  co_await comm.reduce(one, ReduceOp::max, 0);
}

Task<> collectives_with_blocks_for_all(Communicator& comm, Buffers& buffers) {
  const std::span<float> one(buffers.one);
  const std::span<float> all(buffers.all);
  const std::size_t block = one.size() / comm.size();
  co_await comm.all_gather(std::span<const float>(one.first(block)), all);
  co_await comm.reduce_scatter(std::span<const float>(all), one.first(block), ReduceOp::max);
}

Task<> collectives_of_blocks(Communicator& comm, Buffers& buffers) {
  const std::span<const float> one(buffers.one);
  const std::span<float> all(buffers.all);
  const std::size_t block = one.size() / comm.size();
  co_await comm.gather(one.first(block), all, 0);
  co_await comm.scatter(std::span<const float>(all), std::span(buffers.one).first(block), 0);
  co_await comm.all_to_all(one, all);
}

Task<> scans(Communicator& comm, Buffers& buffers) {
  co_await comm.scan(buffers.one, ReduceOp::max);
  co_await comm.exclusive_scan(buffers.one, buffers.all, ReduceOp::max);
}

Task<> collectives_with_counts(Communicator& comm, Buffers& buffers) {
  const std::vector<std::size_t>& counts = buffers.counts;
  const std::span<float> own = std::span(buffers.one).first(counts[comm.rank()]);
  const std::span<float> all = std::span(buffers.all).first(counts[0] + counts[1]);
  co_await comm.all_gather_v(std::span<const float>(own), all, counts);
  co_await comm.reduce_scatter_v(std::span<const float>(all), own, counts, ReduceOp::max);
  co_await comm.gather_v(std::span<const float>(own), all, counts, 0);
  co_await comm.scatter_v(std::span<const float>(all), own, counts, 0);
}

Task<> collectives_of_pairs(Communicator& comm, Buffers& buffers) {
  const std::vector<std::size_t>& counts = buffers.pair_counts;
  const std::span<const float> in = std::span<const float>(buffers.one).first(counts[0] + counts[1]);
  const std::span<float> out = std::span(buffers.all).first(in.size());
  co_await comm.all_to_all_v(in, counts, out, counts);
}

Task<> collectives_of_several_tensors(Communicator& comm, Buffers& buffers) {
  co_await comm.all_reduce(buffers.lists, ReduceOp::max);
  co_await comm.all_reduce(buffers.lists, scaled_sum(0.5));
  co_await comm.broadcast(buffers.lists, 0);
  co_await comm.all_gather(buffers.lists_of_all);
}

Task<> collectives_by_a_function(Communicator& comm, Buffers& buffers) {
  const auto last = reduction<float>([](float, float right) { return right; });
  const std::span<float> one(buffers.one);
  co_await comm.all_reduce(one, last);
  co_await comm.scan(one, last);
  co_await comm.reduce(one, last, 0);
  co_await comm.reduce_scatter(one, std::span(buffers.all).first(one.size() / comm.size()), last);
}

Task<> collectives_of_values(Communicator& comm, Buffers& buffers) {
  buffers.one[0] = co_await comm.all_reduce(buffers.one[0], ReduceOp::max);
  buffers.one[0] = co_await comm.broadcast(buffers.one[0], 0);
}

Task<> every_collective(Communicator& comm, Buffers& buffers) {
  co_await plain_collectives(comm, buffers);
  co_await collectives_with_blocks_for_all(comm, buffers);
  co_await collectives_of_blocks(comm, buffers);
  co_await scans(comm, buffers);
  co_await collectives_with_counts(comm, buffers);
  co_await collectives_of_pairs(comm, buffers);
  co_await collectives_of_several_tensors(comm, buffers);
  co_await collectives_by_a_function(comm, buffers);
  co_await collectives_of_values(comm, buffers);
}

/// The most frames that a rank's thread took from the system.
Task<std::uint64_t> frames_taken(Communicator& comm, Buffers& buffers, int rounds) {
  const std::uint64_t before = FramePool::statistics().from_system;
  for (int i = 0; i < rounds; ++i) co_await every_collective(comm, buffers);
  std::uint64_t taken = FramePool::statistics().from_system - before;
  co_await comm.all_reduce(std::span(&taken, 1), ReduceOp::max);
  co_return taken;
}

/// Over TCP the order in which bytes come decides how many frames are alive at once: now and then one more
/// than ever before; and after a second, two, four, ... ranks measure again, with memory of its own. What is
/// not recycled is taken again and again.
constexpr int kMostWarmUps = 5;

/// The first batch makes what is kept.
template <class Batch>
Task<> count_allocations(Communicator& comm, const Batch& batch) {
  (void)co_await batch();
  co_await comm.barrier();
  std::uint64_t taken = 1;
  for (int i = 0; i < kMostWarmUps && taken != 0; ++i) {
    if (comm.rank() == 0) allocations = 0;
    co_await comm.barrier();
    is_counting = true;
    taken = co_await batch();
    co_await comm.barrier();
    is_counting = false;
    std::uint64_t allocated = allocations;
    co_await comm.broadcast(std::span(&allocated, 1), 0);
    taken = std::max(taken, allocated);
  }
  EXPECT_EQ(taken, 0U) << "frames that were not recycled";
}

Task<> count_allocations_of_collectives(Communicator& comm, std::size_t count) {
  Buffers buffers(count, comm.size());
  const int rounds = count >= kLarge ? kRoundsOfLarge : kRounds;
  const auto batch = [&] { return frames_taken(comm, buffers, rounds); };
  co_await count_allocations(comm, batch);
}

class NoAllocation : public testing::TestWithParam<std::tuple<const char*, bool, std::size_t>> {};

TEST_P(NoAllocation, happens_in_a_collective_after_warm_up) {
  if (sanitizers::kAddress || sanitizers::kThread) GTEST_SKIP() << "sanitizer builds do not recycle frames";
  const auto [transport, is_isolated, count] = GetParam();
  CommunicatorOptions options;
  options.transport = transport;
  options.is_isolated = is_isolated;
  allocations = 0;
  auto body = [count](Communicator& comm) { return count_allocations_of_collectives(comm, count); };
  test::run_ranks(2, body, std::move(options));
  EXPECT_EQ(allocations, 0U);
}

/// Each algorithm of each operator, over links.
Task<> every_algorithm(Communicator& comm, Buffers& buffers) {
  for (const Operator op : all_operators()) {
    const std::size_t count = op->has_data ? buffers.one.size() / comm.size() : 0;
    const Form form{.count = count, .ranks = comm.size()};
    const Extent extent = op->extent(form, comm.rank());
    const CallArguments arguments{
        .type = DataType::float32,
        .reduce = ReduceOp::max,
        .in = std::as_bytes(std::span<const float>(buffers.one).first(extent.send)),
        .out = std::as_writable_bytes(std::span<float>(buffers.all).first(extent.recv))};
    for (const AnyAlgorithm& algorithm : comm.algorithms().of(op)) {
      if (algorithm.scope() != Scope::network || !algorithm.fits(comm.reach().hosts)) continue;
      auto call = comm.call(op, arguments).with_algorithm(algorithm.name());
      co_await std::move(call);
    }
  }
}

/// The most frames that a rank's thread took from the system in a batch.
Task<std::uint64_t> frames_taken_by_algorithms(Communicator& comm, Buffers& buffers) {
  const std::uint64_t before = FramePool::statistics().from_system;
  for (int i = 0; i < kRoundsOfLarge; ++i) co_await every_algorithm(comm, buffers);
  std::uint64_t taken = FramePool::statistics().from_system - before;
  co_await comm.all_reduce(std::span(&taken, 1), ReduceOp::max);
  co_return taken;
}

Task<> count_allocations_of_algorithms(Communicator& comm) {
  Buffers buffers(1000, comm.size());
  const auto batch = [&] { return frames_taken_by_algorithms(comm, buffers); };
  co_await count_allocations(comm, batch);
}

/// Ranks, and hosts that have them.
class EveryAlgorithm : public testing::TestWithParam<std::pair<Rank, Rank>> {};

/// A frame that is too large for the pool would come from the system in every call, and a list that a
/// schedule makes from operator new.
TEST_P(EveryAlgorithm, recycles_frames_and_allocates_nothing_after_warm_up) {
  if (sanitizers::kAddress || sanitizers::kThread) GTEST_SKIP() << "sanitizer builds do not recycle frames";
  const auto [ranks, hosts] = GetParam();
  CommunicatorOptions options;
  if (hosts == ranks) options.transport = "tcp";
  allocations = 0;
  test::run_ranks(ranks, count_allocations_of_algorithms, std::move(options), hosts);
  EXPECT_EQ(allocations, 0U);
}

INSTANTIATE_TEST_SUITE_P(Over, EveryAlgorithm,
                         testing::Values(std::pair<Rank, Rank>{3, 3}, std::pair<Rank, Rank>{3, 2},
                                         std::pair<Rank, Rank>{4, 2}),
                         [](const auto& test) {
                           return fmt::format("{}_ranks_of_{}_hosts", test.param.first, test.param.second);
                         });

std::string name_of_case(const testing::TestParamInfo<std::tuple<const char*, bool, std::size_t>>& test) {
  return fmt::format("{}_{}_{}", std::get<0>(test.param),
                     std::get<1>(test.param) ? "isolated" : "one_process", std::get<2>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, NoAllocation,
                         testing::Combine(testing::Values("shm", "tcp"), testing::Bool(),
                                          testing::Values(std::size_t{4}, kLarge)),
                         name_of_case);

}  // namespace
}  // namespace cohort::no_allocation_test
