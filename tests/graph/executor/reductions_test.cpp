// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/executor/reductions.h>

#include <cohort/graph/compression/compressor.h>
#include <cohort/graph/executor/host_groups.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace cohort::graph::reductions_test {
namespace {

using ::testing::Each;

constexpr Rank kRanks = 4;
constexpr std::size_t kElements = 3001;  // no multiple of shares
constexpr float kLarge = 60000;          // two of them are beyond float16

template <class Small>
std::vector<Small> filled(float value) {
  return std::vector<Small>(kElements, Small(value));
}

template <class Small>
std::vector<float> floats_of(const std::vector<Small>& values) {
  return {values.begin(), values.end()};
}

template <class Small>
std::span<std::byte> raw(std::vector<Small>& values) {
  return std::as_writable_bytes(std::span(values));
}

Task<> average_flat(Communicator& comm) {
  std::vector<float16> small = filled<float16>(kLarge);
  co_await reduce_flat(comm, DataType::float16, ReduceOp::avg, raw(small));
  EXPECT_THAT(floats_of(small), Each(float(float16(kLarge))));
  std::vector<bfloat16> brief = filled<bfloat16>(3e38F);
  co_await reduce_flat(comm, DataType::bfloat16, ReduceOp::avg, raw(brief));
  EXPECT_THAT(floats_of(brief), Each(float(bfloat16(3e38F))));
  std::vector<float16> sum = filled<float16>(static_cast<float>(comm.rank() + 1));
  co_await reduce_flat(comm, DataType::float16, ReduceOp::sum, raw(sum));
  EXPECT_THAT(floats_of(sum), Each(10.0F));
}

TEST(Reductions, averages_of_16_bits_do_not_overflow) {
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  test::run_ranks(kRanks, average_flat);
  test::run_ranks(kRanks, average_flat, tcp);
}

Task<> average_by_hosts(Communicator& comm) {
  HostGroups groups;
  co_await groups.open(comm);
  const HostReduction how{.type = DataType::float16, .reduction = ReduceOp::avg, .ranks = comm.size()};
  std::vector<float16> shares = filled<float16>(kLarge);
  co_await reduce_to_shares(*groups.host, how, raw(shares));
  co_await reduce_share(*groups.host, *groups.across_hosts, how, raw(shares));
  co_await gather_shares(*groups.host, how, raw(shares));
  EXPECT_THAT(floats_of(shares), Each(float(float16(kLarge))));
  std::vector<float16> led = filled<float16>(kLarge);
  co_await reduce_to_leader(*groups.host, how, raw(led));
  if (groups.leaders) co_await reduce_among_leaders(*groups.leaders, how, raw(led));
  co_await groups.host->broadcast(how.type, raw(led), 0);
  EXPECT_THAT(floats_of(led), Each(float(float16(kLarge))));
}

TEST(Reductions, nor_do_they_host_by_host) { test::run_ranks(kRanks, average_by_hosts, {}, 2); }

Task<> average_of_three(Communicator& comm) {
  std::vector<bfloat16> values = filled<bfloat16>(3.0F);
  co_await reduce_flat(comm, DataType::bfloat16, ReduceOp::avg, raw(values));
  EXPECT_THAT(floats_of(values),
              Each(3.0F));  // a third that was rounded to the type would give another number
}

TEST(Reductions, the_divisor_is_not_rounded_to_16_bits) { test::run_ranks(3, average_of_three); }

Task<> average_compressed(Communicator& comm) {
  const auto compressor = Compressor::make({.kind = CompressionKind::fp16});
  std::vector<float> data(kElements, kLarge);
  co_await compressor->reduce(comm, "g", data, true);
  EXPECT_THAT(data, Each(float(float16(kLarge))));
  std::vector<float> of_one(kElements, comm.rank() == 0 ? 196608.0F : 0.0F);  // 16 bits hold it divided alone
  co_await compressor->reduce(comm, "h", of_one, true);
  EXPECT_THAT(of_one, Each(49152.0F));
}

TEST(Reductions, values_that_travel_in_16_bits_are_divided_first) {
  test::run_ranks(kRanks, average_compressed);
}

}  // namespace
}  // namespace cohort::graph::reductions_test
