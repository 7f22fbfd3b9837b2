// SPDX-License-Identifier: Apache-2.0
// Collectives of one value, whose result is what is awaited.
#include <cohort/cohort.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <tuple>

namespace cohort::values_test {
namespace {

using test::error_of;
using test::kind_of;
using ::testing::HasSubstr;

static_assert(Awaitable<ValueCollective<double>>, "when_all and Stream take it");

void on_each_transport(const RankFunction& body) {
  for (const char* transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    test::run_ranks_in_world(4, body, std::move(options));
  }
}

/// Numbers that all types have.
template <class T>
Task<> check_type(Communicator& comm) {
  const T mine(static_cast<T>(static_cast<float>(comm.rank() + 1)));
  const T sum = co_await comm.all_reduce(mine, ReduceOp::sum);
  EXPECT_EQ(static_cast<float>(sum), 10.0F);
  const T least = co_await comm.all_reduce(mine, ReduceOp::min);
  EXPECT_EQ(static_cast<float>(least), 1.0F);
  const T of_root = co_await comm.broadcast(mine, 2);
  EXPECT_EQ(static_cast<float>(of_root), 3.0F);
  const T up_to_here = co_await comm.scan(mine, ReduceOp::max);
  EXPECT_EQ(static_cast<float>(up_to_here), static_cast<float>(mine));
  const T before = co_await comm.exclusive_scan(mine, ReduceOp::max);
  EXPECT_EQ(static_cast<float>(before), static_cast<float>(comm.rank()));
}

Task<> check_types(Communicator& comm) {
  co_await check_type<float>(comm);
  co_await check_type<double>(comm);
  co_await check_type<float16>(comm);
  co_await check_type<bfloat16>(comm);
  co_await check_type<float8_e4m3>(comm);
  co_await check_type<float8_e5m2>(comm);
  co_await check_type<std::int8_t>(comm);
  co_await check_type<std::uint16_t>(comm);
  co_await check_type<int>(comm);
  co_await check_type<long long>(comm);
  co_await check_type<std::size_t>(comm);
}

TEST(Values, of_every_type_are_combined_and_given) { on_each_transport(check_types); }

TEST(Values, of_variables_stay_as_they_are_and_temporaries_will_do) {
  auto body = [](Communicator& comm) -> Task<> {
    double variable = comm.rank();
    const int constant = 7;
    const double sum = co_await comm.all_reduce(variable, ReduceOp::sum);
    const double of_root = co_await comm.broadcast(variable, 3);
    const int product = co_await comm.all_reduce(constant, ReduceOp::max);
    const double halves = co_await comm.all_reduce(0.5, ReduceOp::sum);
    EXPECT_EQ(sum, 6.0);
    EXPECT_EQ(of_root, 3.0);
    EXPECT_EQ(product, 7);
    EXPECT_EQ(halves, 2.0);
    EXPECT_EQ(variable, comm.rank());
  };
  on_each_transport(body);
}

TEST(Values, may_move_to_where_they_are_awaited) {
  auto body = [](Communicator& comm) -> Task<> {
    auto first = comm.all_reduce(1.0, ReduceOp::sum);
    auto second = std::move(first);
    const double sum = co_await std::move(second);
    EXPECT_EQ(sum, 4.0);
    auto later = [&](ValueCollective<double> call) -> Task<double> { co_return co_await std::move(call); };
    const double other = co_await later(comm.all_reduce(2.0, ReduceOp::sum));
    EXPECT_EQ(other, 8.0);
  };
  on_each_transport(body);
}

TEST(Values, go_with_others_and_have_what_other_calls_have) {
  auto body = [](Communicator& comm) -> Task<> {
    std::array<float, 3> beside{1, 1, 1};
    const auto results = co_await when_all(comm.all_reduce(1, ReduceOp::sum),
                                           comm.all_reduce(beside, ReduceOp::sum), comm.broadcast(2.5, 0));
    EXPECT_EQ(std::get<0>(results), 4);
    EXPECT_EQ(beside[2], 4.0F);
    EXPECT_EQ(std::get<2>(results), 2.5);
    const float same = co_await comm.all_reduce(1.0F, ReduceOp::sum)
                           .with_algorithm("tree")
                           .with_determinism(Determinism::D1)
                           .with_deadline(std::chrono::seconds(10));
    EXPECT_EQ(same, 4.0F);
    const int scaled = co_await comm.all_reduce(1, scaled_sum(3));
    EXPECT_EQ(scaled, 12);
    EXPECT_THROW((void)comm.all_reduce(1, ReduceOp::sum).with_algorithm("none such"), Error);
    EXPECT_THROW((void)comm.broadcast(1, comm.size()), Error);
  };
  on_each_transport(body);
}

struct Best {
  double value = 0;
  Rank rank = 0;
};

TEST(Values, are_combined_by_functions_of_the_programs) {
  auto body = [](Communicator& comm) -> Task<> {
    const auto better = reduction<Best>([](Best a, Best b) { return a.value < b.value ? b : a; });
    const std::array<double, 4> values{3, 1, 9, 2};
    const Best mine{values[comm.rank()], comm.rank()};
    const Best best = co_await comm.all_reduce(mine, better);
    EXPECT_EQ(best.rank, 2U);
    EXPECT_EQ(best.value, 9.0);
    const Best same{1, comm.rank()};
    const Best again = co_await comm.all_reduce(same, better).with_deadline(std::chrono::seconds(10));
    EXPECT_EQ(again.rank, 0U);
  };
  on_each_transport(body);
}

TEST(Values, as_a_task_in_a_stream_may_be_dropped) {
  auto body = [](Communicator& comm) -> Task<> {
    Stream stream(comm.engine());
    stream.enqueue(Task<int>(comm.all_reduce(1, ReduceOp::sum)));
    auto fail = []() -> Task<> {
      throw std::runtime_error("planted");
      co_return;
    };
    stream.enqueue(fail());
    stream.enqueue(Task<int>(comm.all_reduce(1, ReduceOp::sum)));
    auto finish = [](Stream& of) -> Task<> { co_await of.synchronize(); };
    bool has_failed = false;
    try {
      co_await finish(stream);
    } catch (const std::runtime_error&) {
      has_failed = true;
    }
    EXPECT_TRUE(has_failed);
  };
  on_each_transport(body);
}

TEST(Values, of_two_types_are_a_mismatch) {
  auto body = [](Communicator& comm) -> Task<> {
    auto call = [&]() -> Task<> {
      if (comm.rank() == 2)
        (void)co_await comm.all_reduce(1.0F, ReduceOp::sum);
      else
        (void)co_await comm.all_reduce(1.0, ReduceOp::sum);
    };
    const auto error = co_await error_of(call());
    EXPECT_EQ(kind_of(error), "Mismatch");
    EXPECT_THAT(error ? error->what() : "", HasSubstr("rank 2 has float32, ranks 0, 1, 3 have float64"));
  };
  on_each_transport(body);
}

}  // namespace
}  // namespace cohort::values_test
