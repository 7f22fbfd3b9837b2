// SPDX-License-Identifier: Apache-2.0
// Every algorithm x transport x ranks 1..8 x type x reduction x odd sizes, in place and out of place, against
// values computed from the rule.
#include <cohort/cohort.h>
#include <cohort/collectives/selection/selection.h>
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

/// The combination of a part's inputs at one index.
template <class T>
T expected_at(const ResultPart& part, std::size_t index, ReduceOp op) {
  std::int64_t result = value_at(part.first, index, op);
  for (Rank rank = part.first + 1; rank < part.end; ++rank) {
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
  const bool is_averaged = op == ReduceOp::avg && part.is_combined();
  return is_averaged ? static_cast<T>(value / static_cast<T>(part.end - part.first)) : value;
}

std::vector<std::size_t> odd_sizes(Rank ranks) {
  return {0, 1, ranks - 1U, ranks, ranks + 1U, 31, 32, 33, 1023, 1024, 1025, kLargerThanBuffer};
}

/// One way to make a call.
struct Variant {
  Operator op;
  std::string_view algorithm;
  std::size_t count = 0;
  ReduceOp reduce = ReduceOp::sum;
  Rank root = 0;
  bool is_in_place = false;
  std::vector<std::size_t> counts{};

  [[nodiscard]] Form form(Rank ranks) const noexcept { return {count, ranks, root, counts}; }
};

/// The algorithms of an operator that run a call of that count here.
template <class T>
std::vector<std::string_view> applicable(const Communicator& comm, Operator op, std::size_t count) {
  const std::size_t bytes = count * op.elements_per_count(comm.size()) * sizeof(T);
  const Call call = make_call_of_size(op, data_type_of<T>(), bytes, comm.size());
  std::vector<std::string_view> names;
  for (const Candidate& one : candidates_for(call, comm.reach(), comm.algorithms()))
    if (one.state == Candidate::State::possible) names.push_back(one.algorithm);
  return names;
}

std::string label(const Communicator& comm, const Variant& of) {
  return fmt::format("{} {} by {} over {}, rank {} of {}, {} elements, root {}{}", to_string(of.op),
                     to_string(of.reduce), of.algorithm, comm.transport(), comm.rank(), comm.size(), of.count,
                     of.root, of.is_in_place ? ", in place" : "");
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

/// Input and output of one rank: apart, or the smaller one inside the larger.
template <class T>
struct Buffers {
  Buffers(const Variant& of, Rank rank, Rank ranks) {
    const auto [in_count, out_count] = of.op->extent(of.form(ranks), rank);
    const bool is_in_place = of.is_in_place || of.op->has_one_buffer;
    memory.assign(is_in_place ? std::max(in_count, out_count) : in_count + out_count, T{77});
    const InPlace at = of.op->in_place(of.form(ranks), rank);
    const std::size_t shift = at.send_at > at.recv_at ? at.send_at - at.recv_at : at.recv_at - at.send_at;
    in = std::span(memory).subspan(is_in_place && in_count < out_count ? shift : 0, in_count);
    const std::size_t inside = in_count < out_count ? 0 : std::min(shift, memory.size() - out_count);
    out = std::span(memory).subspan(is_in_place ? inside : in_count, out_count);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(value_at(rank, i, of.reduce));
  }

  std::vector<T> memory;
  std::span<T> in;
  std::span<T> out;
};

/// Against the operator's definition.
template <class T>
Task<> check_call(Communicator& comm, const Variant& of) {
  Buffers<T> buffers(of, comm.rank(), comm.size());
  const std::vector<T> untouched(buffers.in.begin(), buffers.in.end());
  const CallArguments arguments{.type = data_type_of<T>(),
                                .reduce = of.reduce,
                                .root = of.root,
                                .in = std::as_bytes(buffers.in),
                                .out = std::as_writable_bytes(buffers.out),
                                .counts = of.counts};
  std::vector<T> expected(buffers.out.begin(), buffers.out.end());
  auto call = comm.call(of.op, arguments).with_algorithm(of.algorithm);
  co_await std::move(call);
  const Result result = expected.empty() ? Result() : of.op->result(of.form(comm.size()), comm.rank());
  for (const ResultPart& part : result)
    for (std::size_t i = 0; i < part.elements; ++i)
      expected[part.at + i] = expected_at<T>(part, part.from + i, of.reduce);
  expect_same(std::vector<T>(buffers.out.begin(), buffers.out.end()), expected, label(comm, of));
  const bool is_replaced = !buffers.out.empty() && (of.is_in_place || of.op->has_one_buffer);
  if (is_replaced) co_return;
  expect_same(std::vector<T>(buffers.in.begin(), buffers.in.end()), untouched, label(comm, of) + ", input");
}

template <class T>
Task<> check_roots_and_places(Communicator& comm, Variant of) {
  const Rank roots = of.op->has_root ? comm.size() : 1;
  for (of.root = 0; of.root < roots; ++of.root) {
    of.is_in_place = false;
    co_await check_call<T>(comm, of);
    of.is_in_place = true;
    if (of.op->has_in_place) co_await check_call<T>(comm, of);
  }
}

/// Blocks alike, and no two alike, some of them empty.
template <class T>
Task<> check_counts(Communicator& comm, Variant of) {
  co_await check_roots_and_places<T>(comm, of);
  const std::size_t size = how_many(of.op->counts, comm.size());
  for (std::size_t i = 0; i < size; ++i)
    of.counts.push_back(of.count * ((i + i / comm.size()) % comm.size()) / comm.size());
  if (size != 0) co_await check_roots_and_places<T>(comm, of);
}

/// Every size with float32 sum; every type and reduction at two sizes.
Task<> check_every_size(Communicator& comm) {
  for (const std::size_t count : odd_sizes(comm.size())) {
    for (const Operator op : all_operators()) {
      if (!op->has_data) continue;
      for (const std::string_view name : applicable<float>(comm, op, count)) {
        const Variant variant{op, name, count};
        co_await check_counts<float>(comm, variant);
      }
    }
  }
}

template <class T>
Task<> check_type(Communicator& comm, Operator op, std::size_t count) {
  const std::span<const ReduceOp> reductions(kReduceOps);
  for (const ReduceOp reduce : op->combines ? reductions : reductions.first(1)) {
    for (const std::string_view name : applicable<T>(comm, op, count)) {
      const Variant variant{op, name, count, reduce};
      co_await check_counts<T>(comm, variant);
    }
  }
}

Task<> check_every_type(Communicator& comm) {
  for (const Operator op : all_operators()) {
    if (!op->has_data) continue;
    for (const std::size_t count : {std::size_t{17}, std::size_t{5003}}) {
      co_await check_type<float>(comm, op, count);
      co_await check_type<double>(comm, op, count);
      co_await check_type<std::int32_t>(comm, op, count);
      co_await check_type<std::int64_t>(comm, op, count);
    }
  }
}

/// Each rank enters late in its turn: nobody may leave before.
Task<> check_barriers(Communicator& comm) {
  for (const std::string_view id : applicable<float>(comm, operator_of<Barrier>, 0)) {
    for (Rank late = 0; late < comm.size(); ++late) {
      std::vector<std::int64_t> entered(1, late == comm.rank() ? 1 : 0);
      if (late == comm.rank()) co_await comm.engine().sleep_for(std::chrono::microseconds(500));
      const TimePoint before = comm.engine().now();
      auto barrier = comm.barrier().with_algorithm(id);
      co_await std::move(barrier);
      const TimePoint left = comm.engine().now();
      // All ranks of a simulated world share one clock: whoever left did so after the late one entered.
      std::vector<std::int64_t> times = {late == comm.rank() ? before.time_since_epoch().count() : 0};
      co_await comm.all_reduce(std::span<std::int64_t>(times), ReduceOp::max);
      EXPECT_GE(left.time_since_epoch().count(), times[0]) << id << ", late rank " << late;
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
  static Rank ranks() { return std::get<1>(GetParam()); }
  static Rank hosts() {
    const Way way = std::get<0>(GetParam());
    return way == Way::two_hosts || way == Way::two_hosts_isolated ? 2 : 1;
  }
  static CommunicatorOptions options() {
    const Way way = std::get<0>(GetParam());
    CommunicatorOptions options;
    if (way == Way::tcp) options.transport = "tcp";
    if (way == Way::queue) options.transports = std::span(&test::kQueueTransport, 1);
    options.is_isolated =
        way == Way::shm_isolated || way == Way::shm_pulled || way == Way::two_hosts_isolated;
    options.pull_from_bytes = way == Way::shm_pulled ? 1 : kNeverPull;
    options.buffer_bytes = kBufferBytes;
    return options;
  }
  static void run_on_all(const RankFunction& function) {
    test::run_ranks(ranks(), function, options(), hosts());
  }
};

TEST_P(EveryAlgorithm, gives_the_right_result_for_every_size) { run_on_all(check_every_size); }
TEST_P(EveryAlgorithm, gives_the_right_result_for_every_type_and_reduction) { run_on_all(check_every_type); }
TEST_P(EveryAlgorithm, barrier_holds_everybody_until_the_last_one_is_there) {
  test::run_ranks_in_world(ranks(), check_barriers, options(), hosts());
}

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
