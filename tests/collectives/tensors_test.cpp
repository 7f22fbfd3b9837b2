// SPDX-License-Identifier: Apache-2.0
// Several tensors in one call: each as by a call of its own, whatever travels together; and what is wrong
// with one of them is told by its number.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace cohort::tensors_test {
namespace {

using testing::Each;
using testing::HasSubstr;

using List = std::vector<std::vector<float>>;

/// Elements per tensor, or per block of one: none, few, as many as travel together just so, more; and enough
/// small ones for several messages.
std::vector<std::size_t> many_counts() {
  std::vector<std::size_t> counts = {0, 1, 3, 100'000, 16'384, 0, 16'385, 2, 2048, 300'000, 5};
  counts.insert(counts.end(), 60, 8000);
  return counts;
}

List tensors_of(const std::vector<std::size_t>& counts, std::size_t blocks, float value) {
  List list;
  for (const std::size_t count : counts) {
    list.emplace_back(count * blocks);
    std::vector<float>& tensor = list.back();
    for (std::size_t i = 0; i < tensor.size(); ++i)
      tensor[i] = value + static_cast<float>((i + list.size()) % 17);
  }
  return list;
}

List zeros(const std::vector<std::size_t>& counts, std::size_t blocks) {
  List list;
  for (const std::size_t count : counts) list.emplace_back(count * blocks);
  return list;
}

void expect_same(const List& got, const List& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(got[i] == expected[i]) << what << ", tensor " << i << " of " << got[i].size() << " elements";
}

float own(const Communicator& comm) { return static_cast<float>(comm.rank() + 1); }

Task<> check_all_reduce(Communicator& comm, std::vector<std::size_t> counts, Combination op) {
  const List in = tensors_of(counts, 1, own(comm));
  List expected = in;
  for (std::vector<float>& tensor : expected) co_await comm.all_reduce(tensor, op);
  List out = zeros(counts, 1);
  co_await comm.all_reduce(in, out, op);
  expect_same(out, expected, "all_reduce");
  List both = in;
  co_await comm.all_reduce(both, op);
  expect_same(both, expected, "all_reduce in place");
}

Task<> check_reduce(Communicator& comm, std::vector<std::size_t> counts, Combination op) {
  const Rank root = comm.size() - 1;
  const List in = tensors_of(counts, 1, own(comm));
  List expected = in;
  for (std::vector<float>& tensor : expected) co_await comm.reduce(tensor, op, root);
  List out = comm.rank() == root ? zeros(counts, 1) : List();
  co_await comm.reduce(in, out, op, root);
  if (comm.rank() == root) expect_same(out, expected, "reduce");
  List both = in;
  co_await comm.reduce(both, op, root);
  expect_same(both, expected, "reduce in place");
}

Task<> check_reduce_scatter(Communicator& comm, std::vector<std::size_t> counts, Combination op) {
  const List in = tensors_of(counts, comm.size(), own(comm));
  const List before(in.begin(), in.end());
  List expected = zeros(counts, 1);
  for (std::size_t i = 0; i < counts.size(); ++i) co_await comm.reduce_scatter(in[i], expected[i], op);
  List out = zeros(counts, 1);
  co_await comm.reduce_scatter(in, out, op);
  expect_same(out, expected, "reduce_scatter");
  expect_same(in, before, "reduce_scatter's input");
  List both = in;
  std::vector<std::span<float>> blocks;
  for (std::size_t i = 0; i < counts.size(); ++i)
    blocks.push_back(std::span(both[i]).subspan(comm.rank() * counts[i], counts[i]));
  co_await comm.reduce_scatter(both, blocks, op);
  for (std::size_t i = 0; i < counts.size(); ++i)
    EXPECT_TRUE(std::equal(blocks[i].begin(), blocks[i].end(), expected[i].begin(), expected[i].end()));
}

Task<> check_all_gather(Communicator& comm, std::vector<std::size_t> counts) {
  const List in = tensors_of(counts, 1, own(comm));
  List expected = zeros(counts, comm.size());
  for (std::size_t i = 0; i < counts.size(); ++i) co_await comm.all_gather(in[i], expected[i]);
  List out = zeros(counts, comm.size());
  co_await comm.all_gather(in, out);
  expect_same(out, expected, "all_gather");
  List both = zeros(counts, comm.size());
  for (std::size_t i = 0; i < counts.size(); ++i)
    std::copy(in[i].begin(), in[i].end(),
              both[i].begin() + static_cast<std::ptrdiff_t>(comm.rank() * counts[i]));
  co_await comm.all_gather(both);
  expect_same(both, expected, "all_gather in place");
}

Task<> check_broadcast(Communicator& comm, std::vector<std::size_t> counts) {
  for (Rank root = 0; root < comm.size(); ++root) {
    const List expected = tensors_of(counts, 1, static_cast<float>(root + 1));
    List list = tensors_of(counts, 1, own(comm));
    co_await comm.broadcast(list, root);
    expect_same(list, expected, "broadcast");
  }
}

Task<> check_every_operator(Communicator& comm, std::vector<std::size_t> counts) {
  const std::vector<Combination> ops = {ReduceOp::sum, ReduceOp::avg, scaled_sum(0.5)};
  for (const Combination& op : ops) {
    co_await check_all_reduce(comm, counts, op);
    co_await check_reduce(comm, counts, op);
    co_await check_reduce_scatter(comm, counts, op);
  }
  co_await check_all_gather(comm, counts);
  co_await check_broadcast(comm, counts);
}

std::vector<std::vector<std::size_t>> lists() {
  return {many_counts(), {}, {0, 0, 0}, {7}, {100'000}, {0, 100'000, 0, 200'000}};
}

Task<> check_lists(Communicator& comm) {
  for (const std::vector<std::size_t>& counts : lists()) co_await check_every_operator(comm, counts);
}

/// Sums of small whole numbers and halves: whatever algorithm what travels together takes, they are exact.
TEST(Tensors, come_to_what_a_call_for_each_comes_to) {
  for (const char* const transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    for (const Rank ranks : {1U, 2U, 3U}) test::run_ranks_in_world(ranks, check_lists, options);
  }
  test::run_ranks_in_world(4, check_lists, {}, 2);
}

TEST(Tensors, may_be_in_any_contiguous_list_of_any_contiguous_memory) {
  auto body = [](Communicator& comm) -> Task<> {
    std::array<double, 3> first = {1, 1, 1};
    std::vector<double> second(5, 2);
    const std::array<std::span<double>, 2> spans = {first, second};
    co_await comm.all_reduce(spans, ReduceOp::sum);
    const std::span<const std::span<double>> span_of_spans = spans;
    co_await comm.all_reduce(span_of_spans, ReduceOp::sum);
    EXPECT_THAT(first, Each(4));
    EXPECT_THAT(second, Each(8));
    std::vector<SharedBuffer<std::int32_t>> mapped;
    mapped.push_back(comm.allocate<std::int32_t>(10));
    mapped.push_back(comm.allocate<std::int32_t>(20));
    for (const SharedBuffer<std::int32_t>& buffer : mapped) std::ranges::fill(buffer, 1);
    const std::vector<std::vector<std::int32_t>> inputs = {std::vector<std::int32_t>(10, 5),
                                                           std::vector<std::int32_t>(20, 6)};
    co_await comm.all_reduce(inputs, mapped, ReduceOp::max);
    EXPECT_THAT(mapped[0].span(), Each(5));
    EXPECT_THAT(mapped[1].span(), Each(6));
    EXPECT_EQ(inputs[0][0], 5);
  };
  test::run_ranks_in_world(2, body);
}

/// As those of a call for each: what counts is what they hold when the call has its turn.
TEST(Tensors, that_change_between_making_the_call_and_awaiting_it_are_read_when_it_is_awaited) {
  auto body = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(3, 1), std::vector<float>(100'000, 1), std::vector<float>(4, 1)};
    std::vector<float> one(10, 1);
    auto of_list = comm.all_reduce(list, ReduceOp::sum);
    auto of_one = comm.all_reduce(one, ReduceOp::sum);
    for (std::vector<float>& tensor : list) std::ranges::fill(tensor, 5);
    std::ranges::fill(one, 5);
    co_await std::move(of_list);
    co_await std::move(of_one);
    for (const std::vector<float>& tensor : list) EXPECT_THAT(tensor, Each(10));
    EXPECT_THAT(one, Each(10));
  };
  for (const char* const transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    test::run_ranks_in_world(2, body, std::move(options));
  }
}

TEST(Tensors, keep_their_place_among_other_calls_and_can_be_awaited_as_those_can) {
  auto body = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(3, 1), std::vector<float>(100'000, 1), std::vector<float>(4, 1)};
    std::vector<float> one(10, 1);
    co_await when_all(comm.all_reduce(list, ReduceOp::sum), comm.all_reduce(one, ReduceOp::sum),
                      comm.broadcast(list, 0), comm.barrier());
    TaskScope scope;
    scope.spawn(comm.all_reduce(list, ReduceOp::sum));
    co_await scope.join();
    auto call =
        comm.all_reduce(list, ReduceOp::sum).with_deadline(std::chrono::seconds(5)).with_algorithm("mesh");
    co_await std::move(call);
    Stream stream(comm.engine(), "tensors");
    stream.enqueue(comm.all_reduce(list, ReduceOp::sum));
    co_await stream.synchronize();
    for (const std::vector<float>& tensor : list) EXPECT_THAT(tensor, Each(81));
    EXPECT_THAT(one, Each(3));
  };
  test::run_ranks_in_world(3, body);
}

// --- what is wrong on one rank

void expect_invalid(const std::function<void()>& call, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "was accepted; expected was: " << words.front();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(Tensors, that_no_rank_can_mean_are_refused_by_their_number) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> memory(100);
    const std::span<float> all(memory);
    using Spans = std::vector<std::span<float>>;
    const auto all_reduce = [&](const Spans& in, const Spans& out) {
      return [&comm, in, out] { (void)comm.all_reduce(in, out, ReduceOp::sum); };
    };
    expect_invalid(all_reduce({all.first(10), all.subspan(10, 10)}, {all.subspan(50, 10)}),
                   {"2 tensors with 1 outputs"});
    expect_invalid(all_reduce({all.first(10), all.subspan(10, 10)}, {all.first(10), all.subspan(10, 9)}),
                   {"tensor 1 of 2: all_reduce", "36"});
    expect_invalid(all_reduce({all.first(10), all.subspan(10, 10)}, {all.first(10), all.subspan(15, 10)}),
                   {"tensor 1 of 2: all_reduce", "overlap in part"});
    const std::span<float> absurd(memory.data(), std::size_t{1} << 60);
    expect_invalid(all_reduce({all.first(1), absurd}, {all.first(1), absurd}),
                   {"tensor 1 of 2", "more than any memory has"});
    const Spans list = {all.first(10), all.subspan(10)};
    expect_invalid([&] { (void)comm.all_reduce(list, ReduceOp::bit_and); }, {"bit_and does not combine"});
    expect_invalid([&] { (void)comm.broadcast(list, 7); }, {"rank 7, but the ranks are 0 to"});
    expect_invalid([&] { (void)comm.all_reduce(list, ReduceOp::sum).with_algorithm("fastest"); },
                   {"'fastest' is none that this rank has for all_reduce", "choose one of"});
    expect_invalid([&] { (void)comm.call_on_tensors(operator_of<AllToAll>, {}); },
                   {"all_to_all is not for several tensors"});
    co_await comm.barrier();
  };
  for (const Rank ranks : {1U, 2U}) test::run_ranks_in_world(ranks, body);
}

TEST(Tensors, that_overlap_are_refused_where_one_is_written_to) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> memory(100);
    const std::span<float> all(memory);
    using Spans = std::vector<std::span<float>>;
    const Spans twice = {all.first(10), all.subspan(20, 5), all.subspan(9, 10)};
    expect_invalid([&] { (void)comm.all_reduce(twice, ReduceOp::sum); }, {"tensors 0 and 2 overlap"});
    expect_invalid([&] { (void)comm.broadcast(twice, 0); }, {"tensors 0 and 2 overlap"});
    const Spans apart = {all.subspan(30, 10), all.subspan(40, 5), all.subspan(50, 10)};
    co_await comm.all_reduce(twice, apart, ReduceOp::sum);  // inputs are only read
    const Spans on_others = {all.subspan(60, 10), all.subspan(70, 5), all.subspan(24, 10)};
    expect_invalid([&] { (void)comm.all_reduce(twice, on_others, ReduceOp::sum); },
                   {"tensors 1 and 2 overlap"});
    const Spans inside = {all.first(90), all.subspan(1, 5), all.subspan(80, 2)};
    expect_invalid([&] { (void)comm.all_reduce(inside, ReduceOp::sum); }, {"overlap, and one of them"});
    const Spans touching = {all.first(10), all.subspan(10, 10), all.subspan(5, 0)};
    co_await comm.all_reduce(touching, ReduceOp::sum);
  };
  test::run_ranks_in_world(2, body);
}

TEST(Tensors, a_call_that_is_never_awaited_is_a_bug) {
  auto body = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(3)};
    EXPECT_DEATH((void)comm.all_reduce(list, ReduceOp::sum), "all_reduce was called and never awaited");
    co_await comm.barrier();
  };
  test::run_ranks_in_world(1, body);
}

// --- what the ranks disagree about

constexpr Rank kOddOne = 2;

class Disagreeing : public testing::TestWithParam<const char*> {
 protected:
  static void expect_mismatch(const RankFunction& body, const std::vector<std::string>& words) {
    CommunicatorOptions options;
    const std::string_view transport = GetParam();
    const bool is_mixed = transport == "shm_and_tcp";
    if (!is_mixed) options.transport = transport;
    options.is_isolated = true;
    options.timeout = std::chrono::seconds(20);
    for (const test::Outcome& outcome :
         test::outcomes_of_ranks_in_world(4, body, std::move(options), is_mixed ? 2 : 1)) {
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->kind(), ErrorKind::Mismatch) << outcome.error->what();
      EXPECT_EQ(outcome.error->culprit(), kOddOne) << outcome.error->what();
      for (const std::string& word : words) EXPECT_THAT(outcome.error->what(), HasSubstr(word));
    }
  }

  /// All ranks sum tensors of the first counts, but for one.
  static void expect_mismatch(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& odd,
                              const std::vector<std::string>& words) {
    auto body = [&](Communicator& comm) -> Task<> {
      List list = zeros(comm.rank() == kOddOne ? odd : counts, 1);
      co_await comm.all_reduce(list, ReduceOp::sum);
    };
    expect_mismatch(body, words);
  }
};

TEST_P(Disagreeing, about_one_size_names_the_tensor_and_the_ranks) {
  expect_mismatch({5, 6, 7, 8}, {5, 6, 9, 8}, {"size of tensor 2 differs: rank 2 has", "ranks 0, 1, 3 have"});
  expect_mismatch({5, 6, 7, 8}, {5, 6, 7, 0}, {"size of tensor 3 differs: rank 2 has", "ranks 0, 1, 3 have"});
  expect_mismatch({5, 300'000, 7}, {5, 900'000, 7}, {"size of tensor 1 differs: rank 2 has"});
  expect_mismatch({300'000, 400'000}, {300'000, 8}, {"size of tensor 1 differs: rank 2 has"});
  constexpr std::size_t kUnseen = 262139;  // by the digest
  expect_mismatch({300'000}, {300'000 + kUnseen}, {"size of a large tensor differs: rank 2 has 2 x 262139"});
  std::vector<std::size_t> counts(1000, 3);
  std::vector<std::size_t> odd = counts;
  odd[777] = 100;
  expect_mismatch(counts, odd, {"size of tensor 777 differs: rank 2 has"});
}

TEST_P(Disagreeing, about_several_sizes_or_their_order_names_the_ranks) {
  expect_mismatch({10, 12, 11}, {11, 10, 12}, {"size of several tensors differs: rank 2 has"});
  expect_mismatch({10, 12, 11}, {9, 14, 10}, {"size of several tensors differs: rank 2 has"});
}

TEST_P(Disagreeing, about_how_many_there_are_names_both_numbers) {
  expect_mismatch({5, 6, 7}, {5, 6, 7, 8},
                  {"number of tensors differs: rank 2 has a list of 4", "ranks 0, 1, 3 have a list of 3"});
  expect_mismatch({5, 6}, {}, {"rank 2 has a list of 0", "ranks 0, 1, 3 have a list of 2"});
}

TEST_P(Disagreeing, about_whether_there_is_a_list_at_all_is_told) {
  auto body = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(8)};
    if (comm.rank() == kOddOne)
      co_await comm.all_reduce(list.front(), ReduceOp::sum);
    else
      co_await comm.all_reduce(list, ReduceOp::sum);
  };
  expect_mismatch(body,
                  {"number of tensors differs: rank 2 has one buffer", "ranks 0, 1, 3 have a list of 1"});
}

TEST_P(Disagreeing, about_reduction_type_and_factor_is_told_as_of_one_buffer) {
  auto ops = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(8), std::vector<float>(9)};
    const ReduceOp op = comm.rank() == kOddOne ? ReduceOp::max : ReduceOp::min;
    co_await comm.all_reduce(list, op);
  };
  expect_mismatch(ops, {"reduction differs: rank 2 has max"});
  auto factors = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(8), std::vector<float>(9)};
    const Combination op = scaled_sum(comm.rank() == kOddOne ? 0.5 : 0.25);
    co_await comm.all_reduce(list, op);
  };
  expect_mismatch(factors, {"factor differs: rank 2 has"});
  auto types = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(8), std::vector<float>(9)};
    std::vector<std::vector<double>> other = {std::vector<double>(8), std::vector<double>(9)};
    if (comm.rank() == kOddOne)
      co_await comm.all_reduce(other, ReduceOp::sum);
    else
      co_await comm.all_reduce(list, ReduceOp::sum);
  };
  expect_mismatch(types, {"data type differs: rank 2 has float64"});
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Disagreeing, testing::Values("shm", "tcp", "shm_and_tcp"),
                         [](const auto& test) { return std::string(test.param); });

// --- deadlines, cancellation

class Ending : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<test::Outcome> outcomes(const RankFunction& body) {
    CommunicatorOptions options;
    options.transport = GetParam();
    options.is_isolated = true;
    return test::outcomes_of_ranks_in_world(3, body, std::move(options));
  }
};

TEST_P(Ending, at_the_deadline_names_who_did_not_call) {
  auto body = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(8), std::vector<float>(300'000), std::vector<float>(9)};
    if (comm.rank() == kOddOne) {
      while (!comm.is_failed()) co_await comm.engine().sleep_for(std::chrono::milliseconds(5));
      throw Error(comm.failure());
    }
    auto call = comm.all_reduce(list, ReduceOp::sum).with_deadline(std::chrono::milliseconds(400));
    co_await std::move(call);
  };
  for (const test::Outcome& outcome : outcomes(body)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::DeadlineExceeded) << outcome.error->what();
    EXPECT_EQ(outcome.error->culprit(), kOddOne) << outcome.error->what();
    EXPECT_THAT(outcome.error->what(), HasSubstr("all_reduce(float32 sum, 3 tensors) #1"));
  }
}

TEST_P(Ending, by_cancellation_gives_up_the_communicator) {
  auto body = [](Communicator& comm) -> Task<> {
    List list = {std::vector<float>(8), std::vector<float>(300'000), std::vector<float>(9)};
    if (comm.rank() != kOddOne) {
      co_await comm.all_reduce(list, ReduceOp::sum);
      co_return;
    }
    TaskScope scope;
    List small = {std::vector<float>(8), std::vector<float>(9)};
    scope.spawn(comm.broadcast(small, 0));  // the others do not come to this one
    co_await comm.engine().sleep_for(std::chrono::milliseconds(1));
    scope.cancel();
    co_await scope.join();
    EXPECT_TRUE(comm.is_failed());
    throw Error(comm.failure());
  };
  for (const test::Outcome& outcome : outcomes(body)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->culprit(), kOddOne) << outcome.error->what();
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Ending, testing::Values("shm", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cohort::tensors_test
