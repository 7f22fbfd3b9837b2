// SPDX-License-Identifier: Apache-2.0
// Every algorithm x transport x ranks 1..8 x type x reduction x odd sizes, in place and out of place, against
// values computed from the rule.
#include <cohort/cohort.h>
#include <cohort/collectives/operators/reference.h>
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

/// What rank r puts at index i: small enough that every reduction is exact in every type. Floats of 8 bits
/// tell hardly any numbers apart, so it takes other types to see whose are missing.
double value_at(DataType type, ReduceOp op, Rank rank, std::size_t index) {
  const bool is_tiny = size_bytes(type) == 1 && !is_integer(type);
  if (op == ReduceOp::prod && is_tiny) return (rank + index) % 3 == 0 ? 2 : 1;
  if (op == ReduceOp::prod) return static_cast<double>((rank + index) % 3) + 1;
  if (is_tiny) return static_cast<double>((rank + index) % 3) - 1;
  const auto value = static_cast<double>((rank + 1) * (index % 7 + 1));
  return kind_of(type) == DataKind::unsigned_integer ? value : value - 9;
}

/// The combination of a part's inputs at one index.
double expected_at(DataType type, ReduceOp op, const ResultPart& part, std::size_t index) {
  double result = value_at(type, op, part.first, index);
  for (Rank rank = part.first + 1; rank < part.end; ++rank)
    result = reference::combine(type, op, result, value_at(type, op, rank, index));
  return part.is_combined() ? reference::finish(type, op, result, part.end - part.first) : result;
}

std::vector<std::size_t> odd_sizes(Rank ranks) {
  if (ranks > 5) return {0, 1, ranks + 1U, 33, 1024, kLargerThanBuffer};
  return {0, 1, ranks - 1U, ranks, ranks + 1U, 31, 32, 33, 1023, 1024, 1025, kLargerThanBuffer};
}

/// One way to make a call.
struct Variant {
  Operator op;
  std::string_view algorithm;
  DataType type = DataType::float32;
  ReduceOp reduce = ReduceOp::sum;
  std::size_t count = 0;
  Rank root = 0;
  bool is_in_place = false;
  std::vector<std::size_t> counts{};

  [[nodiscard]] Form form(Rank ranks) const noexcept { return {count, ranks, root, counts}; }
  [[nodiscard]] bool has_one_place() const { return is_in_place || op->has_one_buffer; }
};

/// The algorithms of an operator that run a call of that count here.
std::vector<std::string_view> applicable(const Communicator& comm, Operator op, DataType type,
                                         std::size_t count) {
  const std::size_t bytes = count * op.elements_per_count(comm.size()) * size_bytes(type);
  const Call call = make_call_of_size(op, type, bytes, comm.size());
  std::vector<std::string_view> names;
  for (const Candidate& one : candidates_for(call, comm.reach(), comm.algorithms()))
    if (one.state == Candidate::State::possible) names.push_back(one.algorithm);
  return names;
}

std::string label(const Communicator& comm, const Variant& of) {
  return fmt::format("{} {} by {} over {}, rank {} of {}, {} elements of {}, root {}{}", to_string(of.op),
                     to_string(of.reduce), of.algorithm, comm.transport(), comm.rank(), comm.size(), of.count,
                     to_string(of.type), of.root, of.is_in_place ? ", in place" : "");
}

using Bytes = std::span<const std::byte>;

void expect_same(Bytes got, Bytes expected, DataType type, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  const auto differs = std::mismatch(got.begin(), got.end(), expected.begin()).first;
  if (differs == got.end()) return;
  const std::size_t at = static_cast<std::size_t>(differs - got.begin()) / size_bytes(type);
  const std::size_t byte = at * size_bytes(type);
  ADD_FAILURE() << what << ": at " << at << " got " << reference::load(type, got.data() + byte)
                << ", expected " << reference::load(type, expected.data() + byte);
}

/// What lies where nothing is written.
constexpr std::byte kUntouched{0x45};

/// Input and output of one rank: apart, or the smaller one inside the larger.
struct Buffers {
  Buffers(const Variant& of, Rank rank, Rank ranks) {
    const std::size_t element = size_bytes(of.type);
    const Extent extent = of.op->extent(of.form(ranks), rank);
    const std::size_t in_bytes = extent.send * element;
    const std::size_t out_bytes = extent.recv * element;
    const bool is_one = of.has_one_place();
    memory.assign(is_one ? std::max(in_bytes, out_bytes) : in_bytes + out_bytes, kUntouched);
    const InPlace at = of.op->in_place(of.form(ranks), rank);
    const std::size_t apart = at.send_at > at.recv_at ? at.send_at - at.recv_at : at.recv_at - at.send_at;
    const std::size_t shift = apart * element;
    in = std::span(memory).subspan(is_one && in_bytes < out_bytes ? shift : 0, in_bytes);
    const std::size_t inside = in_bytes < out_bytes ? 0 : std::min(shift, memory.size() - out_bytes);
    out = std::span(memory).subspan(is_one ? inside : in_bytes, out_bytes);
    for (std::size_t i = 0; i < extent.send; ++i)
      reference::store(of.type, in.data() + i * element, value_at(of.type, of.reduce, rank, i));
  }

  std::vector<std::byte> memory;
  std::span<std::byte> in;
  std::span<std::byte> out;
};

/// `before` with the operator's result in it, by definition.
std::vector<std::byte> expected_of(const Variant& of, Rank rank, Rank ranks, Bytes before) {
  std::vector<std::byte> expected(before.begin(), before.end());
  if (before.empty()) return expected;
  for (const ResultPart& part : of.op->result(of.form(ranks), rank))
    for (std::size_t i = 0; i < part.elements; ++i)
      reference::store(of.type, expected.data() + (part.at + i) * size_bytes(of.type),
                       expected_at(of.type, of.reduce, part, part.from + i));
  return expected;
}

/// Against the operator's definition.
Task<> check_call(Communicator& comm, const Variant& of) {
  Buffers buffers(of, comm.rank(), comm.size());
  const std::vector<std::byte> untouched(buffers.in.begin(), buffers.in.end());
  const std::vector<std::byte> expected = expected_of(of, comm.rank(), comm.size(), buffers.out);
  const CallArguments arguments{.type = of.type,
                                .reduce = of.reduce,
                                .root = of.root,
                                .in = buffers.in,
                                .out = buffers.out,
                                .counts = of.counts};
  auto call = comm.call(of.op, arguments).with_algorithm(of.algorithm);
  co_await std::move(call);
  expect_same(buffers.out, expected, of.type, label(comm, of));
  const bool is_replaced = !buffers.out.empty() && of.has_one_place();
  if (!is_replaced) expect_same(buffers.in, untouched, of.type, label(comm, of) + ", input");
}

Task<> check_roots_and_places(Communicator& comm, Variant of) {
  const Rank roots = of.op->has_root ? comm.size() : 1;
  for (of.root = 0; of.root < roots; ++of.root) {
    of.is_in_place = false;
    co_await check_call(comm, of);
    of.is_in_place = true;
    if (of.op->has_in_place) co_await check_call(comm, of);
  }
}

/// Blocks alike, and no two alike, some of them empty.
Task<> check_counts(Communicator& comm, Variant of) {
  co_await check_roots_and_places(comm, of);
  const std::size_t size = how_many(of.op->counts, comm.size());
  for (std::size_t i = 0; i < size; ++i)
    of.counts.push_back(of.count * ((i + i / comm.size()) % comm.size()) / comm.size());
  if (size != 0) co_await check_roots_and_places(comm, of);
}

Task<> check_algorithms(Communicator& comm, Variant of) {
  for (const std::string_view name : applicable(comm, of.op, of.type, of.count)) {
    of.algorithm = name;
    co_await check_counts(comm, of);
  }
}

/// Every size with float32 sum; every type and reduction at two sizes.
Task<> check_every_size(Communicator& comm) {
  for (const std::size_t count : odd_sizes(comm.size())) {
    for (const Operator op : all_operators()) {
      const Variant variant{.op = op, .algorithm = {}, .count = count};
      if (op->has_data) co_await check_algorithms(comm, variant);
    }
  }
}

/// Ranks from which on a sample of types and reductions is taken, another one for each number of them.
constexpr Rank kManyRanks = 5;

/// Whether an operator that only moves such elements moves others of their size as well.
bool stands_for_its_size(DataType type) {
  const auto same = std::find_if(kDataTypes.begin(), kDataTypes.end(),
                                 [&](DataType other) { return size_bytes(other) == size_bytes(type); });
  return *same == type;
}

/// With few elements, and with many, some of the combinations.
Task<> check_type(Communicator& comm, Operator op, DataType type) {
  if (!op->combines && !stands_for_its_size(type)) co_return;
  for (const ReduceOp reduce : kReduceOps) {
    const bool is_one_of = op->combines ? applies(reduce, type) : reduce == kReduceOps.front();
    if (!is_one_of) continue;
    const unsigned number = static_cast<unsigned>(type) + static_cast<unsigned>(reduce);
    const bool is_in_sample = (number + comm.size()) % 4 == 0;
    if (op->combines && comm.size() >= kManyRanks && !is_in_sample) continue;
    Variant variant{.op = op, .algorithm = {}, .type = type, .reduce = reduce, .count = 17};
    co_await check_algorithms(comm, variant);
    variant.count = 5003;
    if (number % 4 == 0 || !op->combines) co_await check_algorithms(comm, variant);
  }
}

Task<> check_every_type(Communicator& comm) {
  for (const Operator op : all_operators()) {
    if (!op->has_data) continue;
    for (const DataType type : kDataTypes) co_await check_type(comm, op, type);
  }
}

/// Each rank enters late in its turn: nobody may leave before.
Task<> check_barriers(Communicator& comm) {
  for (const std::string_view id : applicable(comm, operator_of<Barrier>, DataType::float32, 0)) {
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
