// SPDX-License-Identifier: Apache-2.0
// A sum of scaled elements: every element once, whatever the operator and the algorithm, and inputs are kept.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace cohort::scaled_sum_test {
namespace {

using testing::Each;
using testing::HasSubstr;

template <class T>
std::vector<T> filled(std::size_t count, float value) {
  return std::vector<T>(count, static_cast<T>(value));
}

template <class T>
void expect_all(const std::vector<T>& data, std::size_t count, float value) {
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(static_cast<float>(data[i]), value) << "at " << i;
}

/// Rank r gives r + 1, so that the sum of all is this, times the factor.
float sum_of(Rank ranks) { return static_cast<float>(ranks * (ranks + 1) / 2); }

template <class T>
Task<> check_all_reduce(Communicator& comm, std::size_t count, float factor) {
  const float sum = sum_of(comm.size()) * factor;
  const auto own = static_cast<float>(comm.rank() + 1);
  const std::vector<T> in = filled<T>(count, own);
  std::vector<T> out = filled<T>(count, 0);
  co_await comm.all_reduce(in, out, scaled_sum(factor));
  expect_all(out, count, sum);
  expect_all(in, count, own);
  std::vector<T> both = in;
  co_await comm.all_reduce(both, scaled_sum(factor));
  expect_all(both, count, sum);
}

template <class T>
Task<> check_reduce(Communicator& comm, std::size_t count, float factor) {
  const float sum = sum_of(comm.size()) * factor;
  const auto own = static_cast<float>(comm.rank() + 1);
  const Rank root = comm.size() - 1;
  std::vector<T> in = filled<T>(count, own);
  std::vector<T> out = filled<T>(comm.rank() == root ? count : 0, 0);
  co_await comm.reduce(in, out, scaled_sum(factor), root);
  expect_all(out, out.size(), sum);
  expect_all(in, count, own);
  co_await comm.reduce(in, scaled_sum(factor), root);
  expect_all(in, count, comm.rank() == root ? sum : own);
}

template <class T>
Task<> check_reduce_scatter(Communicator& comm, std::size_t count, float factor) {
  const auto own = static_cast<float>(comm.rank() + 1);
  const std::vector<T> in = filled<T>(count * comm.size(), own);
  std::vector<T> out = filled<T>(count, 0);
  co_await comm.reduce_scatter(in, out, scaled_sum(factor));
  expect_all(out, count, sum_of(comm.size()) * factor);
  expect_all(in, in.size(), own);
}

template <class T>
Task<> check_type(Communicator& comm, float factor) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{5000}, std::size_t{100'000}}) {
    co_await check_all_reduce<T>(comm, count, factor);
    co_await check_reduce<T>(comm, count, factor);
    co_await check_reduce_scatter<T>(comm, count, factor);
  }
}

Task<> check(Communicator& comm) {
  co_await check_type<float>(comm, 0.5F);
  co_await check_type<bfloat16>(comm, 2);
  co_await check_type<float8_e4m3>(comm, 0.25F);
  co_await check_type<std::int32_t>(comm, 3);
}

TEST(ScaledSum, scales_each_element_once_and_keeps_inputs) {
  for (const char* const transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    for (Rank ranks = 1; ranks <= 4; ++ranks) test::run_ranks_in_world(ranks, check, options);
  }
}

/// Products are made before they meet: of values whose sum would be infinite.
TEST(ScaledSum, scales_before_it_adds) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(8, 3e38F);
    co_await comm.all_reduce(data, scaled_sum(1.0 / 4));
    EXPECT_THAT(data, Each(3e38F * 0.25F * 3));
  };
  test::run_ranks_in_world(3, body);
}

TEST(ScaledSum, calls_in_flight_keep_their_order) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> large(200'000, 1.0F);
    std::vector<float> small(4, 1.0F);
    co_await when_all(comm.all_reduce(large, scaled_sum(2)), comm.all_reduce(small, ReduceOp::sum));
    EXPECT_EQ(large.back(), 2.0F * static_cast<float>(comm.size()));
    EXPECT_EQ(small.back(), static_cast<float>(comm.size()));
  };
  test::run_ranks_in_world(3, body);
}

TEST(ScaledSum, ranks_that_give_other_factors_are_named) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(8, 1.0F);
    const double factor = comm.rank() == 1 ? 0.5 : 0.25;
    co_await comm.all_reduce(data, scaled_sum(factor));
  };
  for (const test::Outcome& outcome : test::outcomes_of_ranks_in_world(3, body)) {
    ASSERT_TRUE(outcome.error);
    EXPECT_EQ(outcome.error->kind(), ErrorKind::Mismatch);
    EXPECT_EQ(outcome.error->culprit(), 1U);
    EXPECT_THAT(outcome.error->what(), HasSubstr("factor differs: rank 1 has one of digest"));
  }
}

TEST(ScaledSum, factors_that_are_no_elements_are_refused) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::int32_t> whole(4);
    std::vector<std::uint8_t> bytes(4);
    std::vector<float16> halves(4);
    std::vector<float8_e4m3> eighths(4);
    const auto refuses = [&](auto& data, double factor) {
      try {
        (void)comm.all_reduce(data, scaled_sum(factor)).algorithm();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("of scaled_sum is no"));
        return error.kind() == ErrorKind::InvalidArgument;
      }
      return false;
    };
    EXPECT_TRUE(refuses(whole, 0.5));
    EXPECT_TRUE(refuses(whole, 1e30));
    EXPECT_TRUE(refuses(bytes, -1));
    EXPECT_TRUE(refuses(bytes, 256));
    EXPECT_TRUE(refuses(halves, 1e-12));
    EXPECT_TRUE(refuses(halves, 1e6));
    EXPECT_TRUE(refuses(eighths, 449));
    EXPECT_FALSE(refuses(bytes, 255));
    EXPECT_TRUE(refuses(halves, std::numeric_limits<double>::quiet_NaN()));
    co_await comm.barrier();
  };
  test::run_ranks_in_world(2, body);
}

}  // namespace
}  // namespace cohort::scaled_sum_test
