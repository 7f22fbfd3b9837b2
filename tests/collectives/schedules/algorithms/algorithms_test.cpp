// SPDX-License-Identifier: Apache-2.0
// Every algorithm x transport x ranks 1..9 and 16 (under a sanitizer 1..5) x odd sizes, and every algorithm x
// transport x type x reduction, in place and out of place, against values computed from the rule.
#include <cohort/cohort.h>
#include <cohort/collectives/schedules/operators/reference.h>
#include <cohort/collectives/selection/selection.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/support/queue_transport.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <ostream>
#include <vector>

namespace cohort::algorithms_test {
namespace {

constexpr std::size_t kBufferBytes =
    64 * 1024;  // the smallest, so that messages of moderate size loop over it
constexpr std::size_t kLargerThanBuffer = 70'001;

/// Numbers of ranks among which types and reductions are shared out; one rank takes all that there is.
constexpr Rank kAllOnOneHost[] = {2, 3, 4, 5, 6, 7, 8, 9, 16};
/// A sanitizer sees nothing else with more ranks, and takes long over them.
constexpr std::span<const Rank> kOnOneHost =
    std::span(kAllOnOneHost)
        .first(sanitizers::kAddress || sanitizers::kThread ? 4 : std::size(kAllOnOneHost));
constexpr Rank kOnSeveral[] = {3, 4, 6, 7};

/// Of what is the same for every number of ranks but that another one runs it: each takes the numbers that
/// no other one takes.
class Share {
 public:
  Share(std::span<const Rank> numbers, Rank ranks)
      : of_(ranks == 1 ? 1 : numbers.size()),
        index_(static_cast<std::size_t>(std::ranges::find(numbers, ranks) - numbers.begin()) % of_) {}

  [[nodiscard]] bool has(std::size_t number) const noexcept { return number % of_ == index_; }

 private:
  std::size_t of_;
  std::size_t index_;
};

/// What rank r puts at index i: small enough that every reduction is exact in every type, and no two ranks
/// alike. Floats of 8 bits tell hardly any numbers apart, so it takes other types to see whose are missing.
double value_at(DataType type, ReduceOp op, Rank rank, std::size_t index) {
  constexpr Rank kMostExactFactors = 9;  // powers of 3 become long
  const bool is_tiny = size_bytes(type) == 1 && !is_integer(type);
  const std::size_t third = (rank + index) % 3;
  if (op == ReduceOp::prod && (is_tiny || rank >= kMostExactFactors)) return third == 0 ? 2 : 1;
  if (op == ReduceOp::prod) return static_cast<double>(third) + 1;
  if (is_tiny) return static_cast<double>(third) - 1;
  const auto value = static_cast<double>((std::size_t{rank} * 5 + index) % 17);
  return kind_of(type) == DataKind::unsigned_integer ? value : value - 8;
}

/// After so many indices the values of all ranks begin anew.
constexpr std::size_t kPeriod = std::size_t{3} * 17;

/// The combination of a part's inputs at one index.
double expected_at(DataType type, ReduceOp op, const ResultPart& part, std::size_t index) {
  double result = value_at(type, op, part.first, index);
  for (Rank rank = part.first + 1; rank < part.end; ++rank)
    result = reference::combine(type, op, result, value_at(type, op, rank, index));
  return part.is_combined() ? reference::finish(type, op, result, part.end - part.first) : result;
}

/// Elements by a rule that begins anew after kPeriod of them: value(index) of the first one is that of
/// `from`.
template <class Value>
void fill(DataType type, std::span<std::byte> to, std::size_t from, Value value) {
  const std::size_t element = size_bytes(type);
  const std::size_t first = std::min(kPeriod * element, to.size());
  for (std::size_t at = 0; at < first; at += element)
    reference::store(type, to.data() + at, value(from + at / element));
  for (std::size_t done = first; done < to.size();) {
    const std::size_t bytes = std::min(done, to.size() - done);
    std::memcpy(to.data() + done, to.data(), bytes);
    done += bytes;
  }
}

std::vector<std::size_t> odd_sizes(Operator op, Rank ranks) {
  const std::size_t large = kLargerThanBuffer / op.elements_per_count(ranks) + 1;
  return {0, 1, ranks - 1U, ranks, ranks + 1U, 31, 32, 33, 1023, 1024, 1025, large};
}

/// Whose buffers peers map.
enum class Sharing : std::uint8_t { nobody, everybody, odd_ranks };

void PrintTo(Sharing sharing, std::ostream* out) {
  *out << (sharing == Sharing::everybody ? "everybody" : sharing == Sharing::nobody ? "nobody" : "odd_ranks");
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
  Sharing sharing = Sharing::nobody;

  [[nodiscard]] Form form(Rank ranks) const noexcept { return {count, ranks, root, counts}; }
  [[nodiscard]] bool has_one_place() const { return is_in_place || op->has_one_buffer; }
};

/// Whether what it does depends on whose buffers peers map.
bool looks_at_mapping(std::string_view algorithm) { return algorithm == "slots" || algorithm == "direct"; }

/// An algorithm of an operator, and which one of them it is: the same for every number of ranks.
struct Numbered {
  std::string_view name;
  std::size_t number;
};

/// The algorithms of an operator that run a call of that count here.
std::vector<Numbered> applicable(const Communicator& comm, Operator op, DataType type, std::size_t count) {
  const std::size_t bytes = count * op.elements_per_count(comm.size()) * size_bytes(type);
  const Call call = make_call_of_size(op, type, bytes, comm.size());
  const std::vector<Candidate> candidates = candidates_for(call, comm.reach(), comm.algorithms());
  std::vector<Numbered> all;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].state == Candidate::State::possible) all.push_back({candidates[i].algorithm, i});
  return all;
}

std::string label(const Communicator& comm, const Variant& of) {
  return fmt::format("{} {} by {} over {}, rank {} of {}, {} elements of {}, root {}{}", to_string(of.op),
                     to_string(of.reduce), of.algorithm, comm.transport(), comm.rank(), comm.size(), of.count,
                     to_string(of.type), of.root, of.is_in_place ? ", in place" : "");
}

using Bytes = std::span<const std::byte>;

void expect_same(Bytes got, Bytes expected, DataType type, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  if (std::ranges::equal(got, expected)) return;
  const auto differs = std::ranges::mismatch(got, expected).in1;
  const std::size_t at = static_cast<std::size_t>(differs - got.begin()) / size_bytes(type);
  const std::size_t byte = at * size_bytes(type);
  ADD_FAILURE() << what << ": at " << at << " got " << reference::load(type, got.data() + byte)
                << ", expected " << reference::load(type, expected.data() + byte);
}

/// What lies where nothing is written.
constexpr std::byte kUntouched{0x45};

/// Input and output of one rank: apart, or the smaller one inside the larger.
struct Buffers {
  Buffers(const Variant& of, Communicator& comm) {
    const Rank rank = comm.rank();
    const Rank ranks = comm.size();
    const std::size_t element = size_bytes(of.type);
    const Extent extent = of.op->extent(of.form(ranks), rank);
    const std::size_t in_bytes = extent.send * element;
    const std::size_t out_bytes = extent.recv * element;
    const bool is_one = of.has_one_place();
    take_memory(of.sharing, comm, is_one ? std::max(in_bytes, out_bytes) : in_bytes + out_bytes);
    const InPlace at = of.op->in_place(of.form(ranks), rank);
    const std::size_t apart = at.send_at > at.recv_at ? at.send_at - at.recv_at : at.recv_at - at.send_at;
    const std::size_t shift = apart * element;
    in = memory.subspan(is_one && in_bytes < out_bytes ? shift : 0, in_bytes);
    const std::size_t inside = in_bytes < out_bytes ? 0 : std::min(shift, memory.size() - out_bytes);
    out = memory.subspan(is_one ? inside : in_bytes, out_bytes);
    fill(of.type, in, 0, [&](std::size_t i) { return value_at(of.type, of.reduce, rank, i); });
  }

  void take_memory(Sharing sharing, Communicator& comm, std::size_t bytes) {
    const bool is_shared =
        sharing == Sharing::everybody || (sharing == Sharing::odd_ranks && comm.rank() % 2 == 1);
    if (is_shared) {
      shared = comm.allocate<std::uint8_t>(bytes);
      memory = std::as_writable_bytes(shared.span());
    } else {
      own.resize(bytes);
      memory = own;
    }
    std::ranges::fill(memory, kUntouched);
  }

  std::vector<std::byte> own;
  SharedBuffer<std::uint8_t> shared;
  std::span<std::byte> memory;
  std::span<std::byte> in;
  std::span<std::byte> out;
};

/// `before` with the operator's result in it, by definition.
std::vector<std::byte> expected_of(const Variant& of, Rank rank, Rank ranks, Bytes before) {
  std::vector<std::byte> expected(before.begin(), before.end());
  if (before.empty()) return expected;
  const std::size_t element = size_bytes(of.type);
  for (const ResultPart& part : of.op->result(of.form(ranks), rank)) {
    const auto at = std::span(expected).subspan(part.at * element, part.elements * element);
    fill(of.type, at, part.from, [&](std::size_t i) { return expected_at(of.type, of.reduce, part, i); });
  }
  return expected;
}

/// Against the operator's definition.
Task<> check_call(Communicator& comm, const Variant& of) {
  Buffers buffers(of, comm);
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

/// Blocks alike, and no two alike, some of them empty.
Task<> check_counts(Communicator& comm, Variant of) {
  co_await check_call(comm, of);
  const std::size_t size = how_many(of.op->counts, comm.size());
  for (std::size_t i = 0; i < size; ++i)
    of.counts.push_back(of.count * ((i + i / comm.size()) % comm.size()) / comm.size());
  if (size != 0) co_await check_call(comm, of);
}

/// By those algorithms whose turn it is for the number of the variant. Another root for each, and every other
/// time in place: for any two variants in both places on some number of ranks.
Task<> check_algorithms(Communicator& comm, Variant of, std::size_t number, Share share) {
  for (const Numbered& algorithm : applicable(comm, of.op, of.type, of.count)) {
    const std::size_t turn = number + algorithm.number;
    if (!share.has(turn)) continue;
    if (of.sharing != Sharing::nobody && !looks_at_mapping(algorithm.name)) continue;
    of.algorithm = algorithm.name;
    of.root = of.op->has_root ? static_cast<Rank>(turn / 2 % comm.size()) : 0;
    of.is_in_place = of.op->has_in_place && (turn + comm.size()) % 2 != 0;
    co_await check_counts(comm, of);
  }
}

Task<> check_every_size(Communicator& comm, Sharing sharing) {
  const Share everything({}, 1);
  for (const Operator op : all_operators()) {
    if (!op->has_data) continue;
    const std::vector<std::size_t> sizes = odd_sizes(op, comm.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Variant variant{.op = op, .algorithm = {}, .count = sizes[i], .sharing = sharing};
      co_await check_algorithms(comm, variant, i, everything);
    }
  }
}

constexpr std::size_t kFew = 17;
constexpr std::size_t kMany = 5003;

/// Numbers the types with their reductions.
std::size_t number_of(DataType type, ReduceOp reduce) {
  return static_cast<std::size_t>(type) * kReduceOps.size() + static_cast<std::size_t>(reduce);
}

/// The share of all reductions, with few elements, and with many every fourth time.
Task<> check_reductions(Communicator& comm, Operator op, DataType type, Share share) {
  for (const ReduceOp reduce : kReduceOps) {
    if (!applies(reduce, type)) continue;
    const std::size_t number = number_of(type, reduce);
    Variant variant{.op = op, .algorithm = {}, .type = type, .reduce = reduce, .count = kFew};
    co_await check_algorithms(comm, variant, number, share);
    variant.count = kMany;
    if ((number + comm.size()) % 4 == 0) co_await check_algorithms(comm, variant, number, share);
  }
}

/// Whether an operator that only moves such elements moves others of their size as well.
bool stands_for_its_size(DataType type) {
  const auto same = std::find_if(kDataTypes.begin(), kDataTypes.end(),
                                 [&](DataType other) { return size_bytes(other) == size_bytes(type); });
  return *same == type;
}

Task<> check_every_type(Communicator& comm, Share share) {
  const Share everything({}, 1);
  for (const Operator op : all_operators()) {
    if (!op->has_data) continue;
    for (const DataType type : kDataTypes) {
      if (op->combines) co_await check_reductions(comm, op, type, share);
      if (op->combines || !stands_for_its_size(type)) continue;
      const std::size_t number = size_bytes(type) / 2;
      const bool are_few = (number + comm.size()) % 2 == 0;
      const Variant variant{.op = op, .algorithm = {}, .type = type, .count = are_few ? kFew : kMany};
      co_await check_algorithms(comm, variant, number, everything);
    }
  }
}

/// Each rank enters late in its turn: nobody may leave before.
Task<> check_barriers(Communicator& comm) {
  for (const auto& [id, number] : applicable(comm, operator_of<Barrier>, DataType::float32, 0)) {
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

void PrintTo(Way way, std::ostream* out) { *out << kNames[static_cast<int>(way)]; }

class EveryAlgorithm : public testing::TestWithParam<std::tuple<Way, Rank>> {
 protected:
  static Rank ranks() { return std::get<1>(GetParam()); }
  static Rank hosts() {
    const Way way = std::get<0>(GetParam());
    return way == Way::two_hosts || way == Way::two_hosts_isolated ? 2 : 1;
  }
  static bool is_one_transport() { return hosts() == 1 && std::get<0>(GetParam()) != Way::queue; }
  static CommunicatorOptions options() {
    const Way way = std::get<0>(GetParam());
    CommunicatorOptions options;
    if (way == Way::tcp) options.transport = "tcp";
    if (way == Way::queue) options.transports = std::span(&test::kQueueTransport, 1);
    options.is_isolated =
        way == Way::shm_isolated || way == Way::shm_pulled || way == Way::two_hosts_isolated;
    options.pull_from_bytes = way == Way::shm_pulled ? 1 : kNeverPull;
    options.buffer_bytes = kBufferBytes;
    // Of three levels, one below each switch and both below one: all three are in several_hosts_test.cpp.
    if (hosts() == 2) options.hosts_per_switch = way == Way::two_hosts ? 1 : 2;
    return options;
  }
  static void run_on_all(const RankFunction& function) {
    test::run_ranks(ranks(), function, options(), hosts());
  }
};

TEST_P(EveryAlgorithm, gives_the_right_result_for_every_size) {
  run_on_all([](Communicator& comm) { return check_every_size(comm, Sharing::nobody); });
}
/// On all numbers of ranks together each algorithm combines each type by each reduction.
TEST_P(EveryAlgorithm, gives_the_right_result_for_every_type_and_reduction) {
  const std::span<const Rank> numbers = is_one_transport() ? kOnOneHost : std::span<const Rank>(kOnSeveral);
  const Share share(numbers, ranks());
  run_on_all([share](Communicator& comm) { return check_every_type(comm, share); });
}
TEST_P(EveryAlgorithm, barrier_holds_everybody_until_the_last_one_is_there) {
  test::run_ranks_in_world(ranks(), check_barriers, options(), hosts());
}

class OnMappedMemory : public testing::TestWithParam<std::tuple<Sharing, Rank>> {};

/// By reference, if they may: small inputs are left where they lie, and large ones are not staged.
TEST_P(OnMappedMemory, every_algorithm_gives_the_right_result_for_every_size) {
  const auto [sharing, ranks] = GetParam();
  CommunicatorOptions options;
  options.is_isolated = true;
  options.buffer_bytes = kBufferBytes;
  const auto body = [sharing](Communicator& comm) { return check_every_size(comm, sharing); };
  test::run_ranks_with_cores(ranks, body, options);
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Way, Rank>>& test) {
  return fmt::format("{}_{}_ranks", kNames[static_cast<int>(std::get<0>(test.param))],
                     std::get<1>(test.param));
}

std::vector<Rank> one_and(std::span<const Rank> numbers) {
  std::vector<Rank> all = {1};
  all.insert(all.end(), numbers.begin(), numbers.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, EveryAlgorithm,
                         testing::Combine(testing::Values(Way::shm_one_process, Way::shm_isolated,
                                                          Way::shm_pulled, Way::tcp),
                                          testing::ValuesIn(one_and(kOnOneHost))),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(SeveralTransports, EveryAlgorithm,
                         testing::Combine(testing::Values(Way::two_hosts, Way::two_hosts_isolated,
                                                          Way::queue),
                                          testing::ValuesIn(kOnSeveral)),
                         name_of_case);

INSTANTIATE_TEST_SUITE_P(, OnMappedMemory,
                         testing::Combine(testing::Values(Sharing::everybody, Sharing::odd_ranks),
                                          testing::Range(Rank{1}, Rank{10})),
                         [](const auto& test) {
                           const bool is_all = std::get<0>(test.param) == Sharing::everybody;
                           return fmt::format("of_{}_{}_ranks", is_all ? "all" : "odd",
                                              std::get<1>(test.param));
                         });

TEST(ShareOfTypes, each_is_of_one_number_of_ranks) {
  for (const std::span<const Rank> numbers : {kOnOneHost, std::span<const Rank>(kOnSeveral)}) {
    for (std::size_t turn = 0; turn < 1000; ++turn) {
      const auto takes = [&](Rank ranks) { return Share(numbers, ranks).has(turn); };
      EXPECT_EQ(std::ranges::count_if(numbers, takes), 1) << turn;
      EXPECT_TRUE(takes(1));
    }
  }
}

}  // namespace
}  // namespace cohort::algorithms_test
