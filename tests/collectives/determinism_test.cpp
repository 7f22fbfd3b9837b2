// SPDX-License-Identifier: Apache-2.0
// What D3 promises: the bits of the definition, from whatever algorithm is offered, over whatever transport.
#include <cohort/cohort.h>
#include <cohort/collectives/memory/reduction/reduce.h>
#include <cohort/collectives/schedules/operators/reference.h>
#include <cohort/collectives/selection/explanation.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>

namespace cohort::determinism_test {
namespace {

using test::Outcome;
using testing::HasSubstr;

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr DataType kFloats[] = {DataType::float32,  DataType::float64,     DataType::float16,
                                DataType::bfloat16, DataType::float8_e4m3, DataType::float8_e5m2};
constexpr ReduceOp kRounding[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::prod};

/// Where an operator writes nothing.
constexpr std::byte kUntouched{0x45};

/// One call of which all inputs are known to every rank.
struct Case {
  Operator op;
  DataType type;
  ReduceOp reduce;
  Form form;

  [[nodiscard]] std::vector<std::byte> input_of(Rank rank) const {
    std::vector<std::byte> input(op->extent(form, rank).send * size_bytes(type));
    std::mt19937 random(rank + 1);
    std::uniform_real_distribution<double> mantissa(-2, 2);
    std::uniform_int_distribution<int> exponent(-3, 3);
    for (std::size_t at = 0; at < input.size(); at += size_bytes(type))
      reference::store(type, input.data() + at, std::ldexp(mantissa(random), exponent(random)));
    return input;
  }

  /// All inputs of a part in one step, by rank.
  [[nodiscard]] std::vector<std::byte> result_of(Rank rank) const {
    const std::size_t element = size_bytes(type);
    std::vector<std::byte> result(op->extent(form, rank).recv * element, kUntouched);
    if (result.empty()) return result;
    std::vector<std::vector<std::byte>> inputs;
    for (Rank from = 0; from < form.ranks; ++from) inputs.push_back(input_of(from));
    for (const ResultPart& part : op->result(form, rank)) {
      std::vector<const std::byte*> operands;
      for (Rank from = part.first; from < part.end; ++from)
        operands.push_back(inputs[from].data() + part.from * element);
      std::byte* const output = result.data() + part.at * element;
      const bool divides = reduce == ReduceOp::avg && operands.size() > 1;
      cohort::reduce({.type = type,
                      .op = reduce,
                      .count = part.elements,
                      .inputs = operands,
                      .outputs = std::span(&output, 1),
                      .average_over = divides ? operands.size() : 0});
    }
    return result;
  }
};

/// Which algorithms give D3 here, and in the end no name: what is selected.
std::vector<std::string_view> offered(const Communicator& comm, const Case& of) {
  Call call = make_call_of_size(of.op, of.type,
                                of.form.count * of.op.elements_per_count(comm.size()) * size_bytes(of.type),
                                comm.size());
  call.reduce = of.reduce;
  call.ask_for(Determinism::D3);
  std::vector<std::string_view> names;
  for (const Candidate& candidate : candidates_for(call, comm.reach(), comm.algorithms()))
    if (candidate.state == Candidate::State::possible) names.push_back(candidate.algorithm);
  names.emplace_back();
  return names;
}

Task<> expect_bits(Communicator& comm, Case of) {
  const std::vector<std::byte> input = of.input_of(comm.rank());
  const std::vector<std::byte> expected = of.result_of(comm.rank());
  const std::vector<std::string_view> names = offered(comm, of);
  EXPECT_GE(names.size(), 2U);
  for (const std::string_view name : names) {
    std::vector<std::byte> output(expected.size(), kUntouched);
    const CallArguments arguments{.type = of.type, .reduce = of.reduce, .in = input, .out = output};
    auto call = comm.call(of.op, arguments).with_determinism(Determinism::D3);
    if (!name.empty()) (void)std::move(call).with_algorithm(name);
    const std::string algorithm(std::as_const(call).algorithm());
    co_await std::move(call);
    EXPECT_TRUE(std::ranges::equal(output, expected))
        << to_string(of.op) << " by " << algorithm << " over " << comm.transport() << ", " << of.form.count
        << " " << to_string(of.type) << ", " << to_string(of.reduce) << ", rank " << comm.rank() << " of "
        << comm.size();
  }
}

Task<> expect_bits_of_all(Communicator& comm) {
  for (const Operator op : all_operators()) {
    if (!op->combines || op->counts != Counts::one) continue;
    for (const DataType type : kFloats)
      for (const ReduceOp reduce : kRounding)
        for (const std::size_t count : {std::size_t{3}, std::size_t{5001}}) {
          const Case one{op, type, reduce, {.count = count, .ranks = comm.size()}};
          co_await expect_bits(comm, one);
        }
  }
}

struct Way {
  const char* name;
  Rank ranks;
  Rank hosts;
  const char* transport;
  bool is_isolated;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Determinism3 : public testing::TestWithParam<Way> {};

TEST_P(Determinism3, gives_the_same_bits_by_every_algorithm_that_is_offered) {
  CommunicatorOptions options;
  options.transport = GetParam().transport;
  options.is_isolated = GetParam().is_isolated;
  options.buffer_bytes = kBufferBytes;
  test::run_ranks(GetParam().ranks, expect_bits_of_all, std::move(options), GetParam().hosts);
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, Determinism3,
    testing::Values(Way{"two_threads", 2, 1, "", false}, Way{"two_processes", 2, 1, "", true},
                    Way{"two_over_tcp", 2, 1, "tcp", false}, Way{"five_threads", 5, 1, "", false},
                    Way{"five_processes", 5, 1, "", true}, Way{"five_over_tcp", 5, 1, "tcp", false},
                    Way{"five_on_two_hosts", 5, 2, "", true}),
    [](const auto& way) { return way.param.name; });

Task<> sum(Communicator& comm, std::vector<float>& data, std::optional<Determinism> level,
           std::string_view algorithm = {}) {
  auto call = comm.all_reduce(std::span(data), ReduceOp::sum);
  if (!algorithm.empty()) (void)std::move(call).with_algorithm(algorithm);
  if (level) (void)std::move(call).with_determinism(*level);
  co_await std::move(call);
}

TEST(Determinism, is_the_communicators_unless_a_call_asks_for_another) {
  CommunicatorOptions options;
  options.transport = "tcp";
  options.determinism = Determinism::D2;
  options.algorithm = "ring";  // for the calls that it can run
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(1 << 20);
    const auto order_of = [&](auto&& call) {
      return comm.algorithms().find(operator_of<AllReduce>, std::move(call).algorithm())->order();
    };
    EXPECT_GE(order_of(comm.all_reduce(std::span(data), ReduceOp::sum)), ReductionOrder::by_rank);
    EXPECT_EQ(order_of(comm.all_reduce(std::span(data), ReduceOp::sum).with_determinism(Determinism::D0)),
              ReductionOrder::fixed);
    EXPECT_EQ(order_of(comm.all_reduce(std::span(data), ReduceOp::max)), ReductionOrder::fixed)
        << "has one result in any order";
    std::vector<std::vector<float>> tensors(3, data);
    co_await comm.all_reduce(tensors, ReduceOp::sum);
    co_await comm.all_reduce(tensors, ReduceOp::sum).with_determinism(Determinism::D0).with_algorithm("ring");
    auto refused = [&] { (void)comm.all_reduce(tensors, ReduceOp::sum).with_algorithm("ring"); };
    EXPECT_THROW(refused(), Error);
  };
  test::run_ranks(4, body, std::move(options));
}

TEST(Determinism, refuses_an_algorithm_that_does_not_give_it_and_goes_on) {
  CommunicatorOptions options;
  options.transport = "tcp";
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(100, 1);
    std::string why;
    try {
      (void)comm.all_reduce(std::span(data), ReduceOp::sum)
          .with_algorithm("ring")
          .with_determinism(Determinism::D3);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
      why = error.what();
    }
    EXPECT_THAT(why, HasSubstr("does not give D3 of float32; choose one of: one_shot, mesh"));
    co_await sum(comm, data, Determinism::D3, "mesh");
    EXPECT_EQ(data[7], 3);
  };
  test::run_ranks(3, body, std::move(options));
}

/// Also where both come to the same algorithm: by D1 a message may be cut in other pieces.
TEST(Determinism, that_differs_between_ranks_is_named) {
  for (const Determinism odd : {Determinism::D1, Determinism::D3}) {
    auto body = [&](Communicator& comm) -> Task<> {
      std::vector<float> data(100, 1);
      const Determinism level = comm.rank() == 2 ? odd : Determinism::D0;
      co_await sum(comm, data, level);
    };
    for (const Outcome& outcome : test::outcomes_of_ranks(4, body)) {
      ASSERT_TRUE(outcome.error);
      EXPECT_EQ(outcome.error->kind(), ErrorKind::Mismatch);
      EXPECT_EQ(outcome.error->culprit(), Rank{2});
      EXPECT_THAT(outcome.error->what(),
                  HasSubstr(fmt::format("determinism differs: rank 2 has {}", to_string(odd))));
    }
  }
}

TEST(Determinism, of_D1_is_chosen_by_nothing_that_was_measured) {
  CommunicatorOptions options;
  options.transport = "tcp";
  auto body = [](Communicator& comm) -> Task<> {
    const LinkSpeed known = comm.reach().model.speed().unmeasured();
    const CostModel model(known, comm.size());
    const Explanation explanation =
        comm.explain(operator_of<AllReduce>, DataType::float32, 4096, {}, Determinism::D1);
    EXPECT_THAT(explanation.reason, HasSubstr("D1, by nothing that was measured"));
    for (const Explanation::Line& line : explanation.candidates) {
      if (!line.candidate.estimate_us) continue;
      EXPECT_DOUBLE_EQ(*line.candidate.estimate_us, model.estimate_us(*line.candidate.cost));
    }
    std::vector<float> data(3, 1);
    co_await sum(comm, data, Determinism::D1);
    EXPECT_EQ(data[2], 4);
  };
  test::run_ranks(4, body, std::move(options));
}

TEST(Determinism, is_read_from_the_environment) {
  EXPECT_EQ(parse_determinism("D2"), Determinism::D2);
  EXPECT_EQ(parse_determinism("d0"), Determinism::D0);
  for (const char* const wrong : {"", "D", "D4", "2", "D22", "none"})
    EXPECT_EQ(parse_determinism(wrong), std::nullopt);
  ASSERT_EQ(setenv("COHORT_DETERMINISM", "D3", 1), 0);
  EXPECT_EQ(CommunicatorOptions::collectives_from_environment().determinism, Determinism::D3);
  ASSERT_EQ(setenv("COHORT_DETERMINISM", "often", 1), 0);
  EXPECT_THROW((void)CommunicatorOptions::collectives_from_environment(), Error);
  ASSERT_EQ(unsetenv("COHORT_DETERMINISM"), 0);
}

}  // namespace
}  // namespace cohort::determinism_test
