// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/selection.h>

#include <cohort/collectives/communicator_options.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

namespace cohort {
namespace {

using testing::error_from;
using ::testing::HasSubstr;
using testing::kind_of;

constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

Reach over_tcp(Rank ranks, double ranks_per_core) {
  LinkSpeed speed;
  speed.ranks_per_core = ranks_per_core;
  return {.ranks = ranks, .buffer_bytes = kBufferBytes, .model = CostModel(speed, ranks)};
}

Call call(Operator op, std::size_t bytes, Rank ranks = 1) {
  Call call;
  call.op = op;
  call.type = DataType::float32;
  call.send_bytes = call.recv_bytes = bytes;
  if (op == Operator::reduce_scatter) call.recv_bytes /= ranks;
  call.count = bytes / sizeof(float);
  return call;
}

TEST(Selection, takes_fewer_messages_where_ranks_share_cores_and_fewer_rounds_where_they_do_not) {
  for (const Rank ranks : {8U, 16U}) {
    EXPECT_EQ(select_algorithm(call(Operator::barrier, 0), over_tcp(ranks, ranks / 2.0), {}),
              AlgorithmId::tree);
    EXPECT_EQ(select_algorithm(call(Operator::all_reduce, 8), over_tcp(ranks, ranks / 2.0), {}),
              AlgorithmId::tree);
  }
  for (const Rank ranks : {2U, 3U}) {
    EXPECT_EQ(select_algorithm(call(Operator::barrier, 0), over_tcp(ranks, 1), {}), AlgorithmId::one_shot);
    EXPECT_EQ(select_algorithm(call(Operator::all_reduce, 8), over_tcp(ranks, 1), {}), AlgorithmId::one_shot);
  }
}

TEST(Selection, takes_the_least_volume_for_large_messages) {
  const AlgorithmId chosen =
      select_algorithm(call(Operator::all_reduce, std::size_t{64} << 20), over_tcp(8, 1), {});
  EXPECT_TRUE(chosen == AlgorithmId::mesh || chosen == AlgorithmId::ring) << to_string(chosen);
}

TEST(Selection, follows_what_was_measured) {
  LinkSpeed slow_messages;
  slow_messages.message_us = 1e5;
  LinkSpeed slow_bytes;
  slow_bytes.byte_us = 1;
  const Call medium = call(Operator::all_reduce, 64 << 10);
  Reach reach = over_tcp(8, 4);
  reach.model = CostModel(slow_messages, 8);
  const AlgorithmId few_messages = select_algorithm(medium, reach, {});
  reach.model = CostModel(slow_bytes, 8);
  const AlgorithmId few_bytes = select_algorithm(medium, reach, {});
  EXPECT_NE(few_messages, few_bytes);
  EXPECT_TRUE(few_bytes == AlgorithmId::mesh || few_bytes == AlgorithmId::ring) << to_string(few_bytes);
}

TEST(Selection, forced_for_all_calls_leaves_operators_alone_that_do_not_have_it) {
  const Reach reach = over_tcp(4, 2);
  const Call barrier = call(Operator::barrier, 0);
  EXPECT_EQ(select_algorithm(call(Operator::all_reduce, 8), reach, AlgorithmId::mesh), AlgorithmId::mesh);
  EXPECT_EQ(select_algorithm(barrier, reach, AlgorithmId::mesh), select_algorithm(barrier, reach, {}));
  EXPECT_EQ(select_algorithm(barrier, reach, AlgorithmId::direct), select_algorithm(barrier, reach, {}))
      << "it needs shared memory";
}

TEST(Selection, forced_by_the_call_and_not_there_is_refused_with_those_that_are) {
  Call barrier = call(Operator::barrier, 0);
  barrier.forced = AlgorithmId::mesh;
  const auto error =
      error_from([&] { (void)select_algorithm(barrier, over_tcp(4, 2), AlgorithmId::one_shot); });
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_THAT(error->what(), HasSubstr("algorithm 'mesh' cannot run barrier"));
  EXPECT_THAT(error->what(), HasSubstr("choose one of: one_shot, tree, ring"));
}

TEST(Selection, pieces_over_tcp_fit_the_cache_on_all_ranks_together) {
  LinkSpeed speed;
  speed.cache_bytes = 512 << 10;
  Reach reach = over_tcp(4, 2);
  reach.model = CostModel(speed, 4);
  const std::size_t large = std::size_t{64} << 20;
  for (const Algorithm<AllReduce>& algorithm : algorithms<AllReduce>())
    EXPECT_LE(piece_bytes(algorithm, call(Operator::all_reduce, large), reach), speed.cache_bytes);
  for (const Algorithm<AllGather>& algorithm : algorithms<AllGather>())
    EXPECT_LE(piece_bytes(algorithm, call(Operator::all_gather, large), reach), speed.cache_bytes / 4);
  for (const Algorithm<ReduceScatter>& algorithm : algorithms<ReduceScatter>())
    EXPECT_LE(piece_bytes(algorithm, call(Operator::reduce_scatter, large, 4), reach), speed.cache_bytes / 4);
  for (const Algorithm<Broadcast>& algorithm : algorithms<Broadcast>())
    EXPECT_EQ(piece_bytes(algorithm, call(Operator::broadcast, 4000), reach), 4000U) << "small: whole";
}

TEST(Selection, unknown_algorithm_in_the_environment_is_refused_with_all_names) {
  ASSERT_EQ(::setenv("COHORT_ALGO", "bruck", 1), 0);
  const auto error = error_from([] { (void)CommunicatorOptions::from_environment(); });
  ASSERT_EQ(::unsetenv("COHORT_ALGO"), 0);
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  for (const std::string_view name : algorithm_names())
    EXPECT_THAT(error->what(), HasSubstr(std::string(name)));
}

}  // namespace
}  // namespace cohort
