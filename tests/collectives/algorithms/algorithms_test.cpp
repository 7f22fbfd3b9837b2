// SPDX-License-Identifier: Apache-2.0
// Every algorithm x transport x ranks 1..8 x type x reduction x odd sizes, in place and out of place, against
// values computed from the rule.
#include <cohort/cohort.h>
#include <cohort/tests/support/queue_transport.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cohort {
namespace {

constexpr std::size_t kBufferBytes =
    64 * 1024;  // the smallest, so that messages of moderate size loop over it
constexpr std::size_t kLargerThanBuffer = 70'001;

/// What rank r puts at index i: small enough that every reduction is exact in every type.
std::int64_t value_at(Rank rank, std::size_t index, ReduceOp op) {
  if (op == ReduceOp::prod) return static_cast<std::int64_t>((rank + index) % 3) + 1;
  return static_cast<std::int64_t>((rank + 1) * (index % 7 + 1)) - 9;
}

template <class T>
T expected_at(Rank ranks, std::size_t index, ReduceOp op) {
  std::int64_t result = value_at(0, index, op);
  for (Rank rank = 1; rank < ranks; ++rank) {
    const std::int64_t next = value_at(rank, index, op);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg: result += next; break;
      case ReduceOp::prod: result *= next; break;
      case ReduceOp::max: result = std::max(result, next); break;
      case ReduceOp::min: result = std::min(result, next); break;
    }
  }
  const T value = static_cast<T>(result);
  return op == ReduceOp::avg ? static_cast<T>(value / static_cast<T>(ranks)) : value;
}

std::vector<std::size_t> odd_sizes(Rank ranks) {
  return {0, 1, ranks - 1U, ranks, ranks + 1U, 31, 32, 33, 1023, 1024, 1025, kLargerThanBuffer};
}

/// The algorithms of an operator that run on this communicator.
template <class Op>
std::vector<AlgorithmId> applicable(const Communicator& comm) {
  std::vector<AlgorithmId> ids;
  for (const auto& algorithm : algorithms<Op>())
    if (!algorithm.needs_mapped_group || comm.reach().is_host_wide) ids.push_back(algorithm.id);
  return ids;
}

std::string label(const Communicator& comm, std::string_view op, AlgorithmId id, std::size_t count) {
  return fmt::format("{} by {} over {}, rank {} of {}, {} elements", op, to_string(id), comm.transport(),
                     comm.rank(), comm.size(), count);
}

template <class T>
std::size_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

template <class T>
void expect_same(const std::vector<T>& got, const std::vector<T>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  const std::size_t at = first_difference(got, expected);
  if (at < got.size())
    ADD_FAILURE() << what << ": at " << at << " got " << got[at] << ", expected " << expected[at];
}

template <class T>
Task<> check_all_reduce(Communicator& comm, AlgorithmId id, std::size_t count, ReduceOp op) {
  std::vector<T> in(count);
  std::vector<T> expected(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<T>(value_at(comm.rank(), i, op));
  for (std::size_t i = 0; i < count; ++i) expected[i] = expected_at<T>(comm.size(), i, op);
  const std::vector<T> untouched = in;
  std::vector<T> out(count, T{77});
  auto apart = comm.all_reduce(std::span<const T>(in), std::span<T>(out), op).with_algorithm(id);
  co_await std::move(apart);
  const std::string what = label(comm, "all_reduce", id, count) + fmt::format(", {}", to_string(op));
  expect_same(out, expected, what);
  expect_same(in, untouched, what + ", input");
  auto in_place = comm.all_reduce(std::span<T>(in), op).with_algorithm(id);
  co_await std::move(in_place);
  expect_same(in, expected, what + ", in place");
}

template <class T>
Task<> check_reduce_scatter(Communicator& comm, AlgorithmId id, std::size_t count, ReduceOp op) {
  std::vector<T> in(count * comm.size());
  std::vector<T> expected(count);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(value_at(comm.rank(), i, op));
  for (std::size_t i = 0; i < count; ++i)
    expected[i] = expected_at<T>(comm.size(), comm.rank() * count + i, op);
  const std::vector<T> untouched = in;
  std::vector<T> out(count, T{77});
  auto apart = comm.reduce_scatter(std::span<const T>(in), std::span<T>(out), op).with_algorithm(id);
  co_await std::move(apart);
  const std::string what = label(comm, "reduce_scatter", id, count) + fmt::format(", {}", to_string(op));
  expect_same(out, expected, what);
  expect_same(in, untouched, what + ", input");
  const std::span<T> own = std::span<T>(in).subspan(comm.rank() * count, count);
  auto in_place = comm.reduce_scatter(std::span<const T>(in), own, op).with_algorithm(id);
  co_await std::move(in_place);
  expect_same(std::vector<T>(own.begin(), own.end()), expected, what + ", in place");
}

template <class T>
Task<> check_all_gather(Communicator& comm, AlgorithmId id, std::size_t count) {
  std::vector<T> in(count);
  std::vector<T> expected(count * comm.size());
  for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<T>(value_at(comm.rank(), i, ReduceOp::sum));
  for (Rank rank = 0; rank < comm.size(); ++rank)
    for (std::size_t i = 0; i < count; ++i)
      expected[rank * count + i] = static_cast<T>(value_at(rank, i, ReduceOp::sum));
  std::vector<T> out(expected.size(), T{77});
  auto apart = comm.all_gather(std::span<const T>(in), std::span<T>(out)).with_algorithm(id);
  co_await std::move(apart);
  const std::string what = label(comm, "all_gather", id, count);
  expect_same(out, expected, what);
  std::fill(out.begin(), out.end(), T{77});
  std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(comm.rank() * count));
  auto in_place = comm.all_gather(std::span<T>(out)).with_algorithm(id);
  co_await std::move(in_place);
  expect_same(out, expected, what + ", in place");
}

template <class T>
Task<> check_broadcast(Communicator& comm, AlgorithmId id, std::size_t count) {
  for (Rank root = 0; root < comm.size(); ++root) {
    std::vector<T> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = static_cast<T>(value_at(root, i, ReduceOp::sum));
    std::vector<T> data = comm.rank() == root ? expected : std::vector<T>(count, T{77});
    auto call = comm.broadcast(std::span<T>(data), root).with_algorithm(id);
    co_await std::move(call);
    expect_same(data, expected, label(comm, "broadcast", id, count) + fmt::format(", root {}", root));
  }
}

/// Every size with float32 sum; every type and reduction at two sizes.
Task<> check_every_size(Communicator& comm) {
  for (const std::size_t count : odd_sizes(comm.size())) {
    for (const AlgorithmId id : applicable<AllReduce>(comm))
      co_await check_all_reduce<float>(comm, id, count, ReduceOp::sum);
    for (const AlgorithmId id : applicable<ReduceScatter>(comm))
      co_await check_reduce_scatter<float>(comm, id, count, ReduceOp::sum);
    for (const AlgorithmId id : applicable<AllGather>(comm))
      co_await check_all_gather<float>(comm, id, count);
    for (const AlgorithmId id : applicable<Broadcast>(comm)) co_await check_broadcast<float>(comm, id, count);
  }
}

template <class T>
Task<> check_type(Communicator& comm) {
  for (const std::size_t count : {std::size_t{17}, std::size_t{5003}}) {
    for (const ReduceOp op : kReduceOps) {
      for (const AlgorithmId id : applicable<AllReduce>(comm))
        co_await check_all_reduce<T>(comm, id, count, op);
      for (const AlgorithmId id : applicable<ReduceScatter>(comm))
        co_await check_reduce_scatter<T>(comm, id, count, op);
    }
    for (const AlgorithmId id : applicable<AllGather>(comm)) co_await check_all_gather<T>(comm, id, count);
    for (const AlgorithmId id : applicable<Broadcast>(comm)) co_await check_broadcast<T>(comm, id, count);
  }
}

Task<> check_every_type(Communicator& comm) {
  co_await check_type<float>(comm);
  co_await check_type<double>(comm);
  co_await check_type<std::int32_t>(comm);
  co_await check_type<std::int64_t>(comm);
}

/// Each rank enters late in its turn: nobody may leave before.
Task<> check_barriers(Communicator& comm) {
  for (const AlgorithmId id : applicable<Barrier>(comm)) {
    for (Rank late = 0; late < comm.size(); ++late) {
      std::vector<std::int64_t> entered(1, late == comm.rank() ? 1 : 0);
      if (late == comm.rank()) co_await comm.engine().sleep_for(std::chrono::milliseconds(2));
      const TimePoint before = comm.engine().now();
      auto barrier = comm.barrier().with_algorithm(id);
      co_await std::move(barrier);
      const TimePoint left = comm.engine().now();
      // All ranks of this test share one clock: whoever left did so after the late one entered.
      std::vector<std::int64_t> times = {late == comm.rank() ? before.time_since_epoch().count() : 0};
      co_await comm.all_reduce(std::span<std::int64_t>(times), ReduceOp::max);
      EXPECT_GE(left.time_since_epoch().count(), times[0]) << to_string(id) << ", late rank " << late;
    }
  }
}

/// How the ranks, threads of this process, reach each other. Processes differ from threads in that their
/// private memory is not mapped, which `isolated` stands for; `pulled`: the kernel copies out of it, where it
/// may, instead of ranks through their CCL buffers; `two_hosts`: shared memory within each, TCP between them;
/// `queue`: a transport of the tests' own.
enum class Way { shm_one_process, shm_isolated, shm_pulled, tcp, two_hosts, two_hosts_isolated, queue };
constexpr const char* kNames[] = {"shm_one_process", "shm_isolated",       "shm_pulled", "tcp",
                                  "two_hosts",       "two_hosts_isolated", "queue"};

class EveryAlgorithm : public testing::TestWithParam<std::tuple<Way, Rank>> {
 protected:
  void run_on_all(const RankFunction& function) {
    const auto [way, ranks] = GetParam();
    CommunicatorOptions options;
    const bool is_two_hosts = way == Way::two_hosts || way == Way::two_hosts_isolated;
    if (way == Way::tcp) options.transport = "tcp";
    if (way == Way::queue) options.transports = std::span(&test::kQueueTransport, 1);
    options.is_isolated =
        way == Way::shm_isolated || way == Way::shm_pulled || way == Way::two_hosts_isolated;
    options.pull_from_bytes = way == Way::shm_pulled ? 1 : kNeverPull;
    options.buffer_bytes = kBufferBytes;
    test::run_ranks(ranks, function, std::move(options), is_two_hosts ? 2 : 1);
  }
};

TEST_P(EveryAlgorithm, gives_the_right_result_for_every_size) { run_on_all(check_every_size); }
TEST_P(EveryAlgorithm, gives_the_right_result_for_every_type_and_reduction) { run_on_all(check_every_type); }
TEST_P(EveryAlgorithm, barrier_holds_everybody_until_the_last_one_is_there) { run_on_all(check_barriers); }

std::string name_of_case(const testing::TestParamInfo<std::tuple<Way, Rank>>& test) {
  return fmt::format("{}_{}_ranks", kNames[static_cast<int>(std::get<0>(test.param))],
                     std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, EveryAlgorithm,
                         testing::Combine(testing::Values(Way::shm_one_process, Way::shm_isolated,
                                                          Way::shm_pulled, Way::tcp),
                                          testing::Range(Rank{1}, Rank{9})),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(SeveralTransports, EveryAlgorithm,
                         testing::Combine(testing::Values(Way::two_hosts, Way::two_hosts_isolated,
                                                          Way::queue),
                                          testing::Values(Rank{3}, Rank{4}, Rank{7})),
                         name_of_case);

}  // namespace
}  // namespace cohort
