// SPDX-License-Identifier: Apache-2.0
// What is explained is what runs, and the numbers shown are those that decided.
#include <cohort/cohort.h>

#include <cohort/collectives/selection/explanation.h>
#include <cohort/engine/tuning.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cohort::explanation_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Rank kRanks = 4;
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::size_t kSlotLimit = 16 * 1024;

Reach over_links() {
  LinkSpeed speed;
  speed.message_us = 5;
  speed.byte_us = 2e-4;
  speed.combine_us = 5e-5;
  return {.is_host_wide = false,
          .hosts = Hosts::apart(kRanks),
          .buffer_bytes = kBufferBytes,
          .model = CostModel(speed, kRanks)};
}

/// Slots win up to kSlotLimit.
Reach over_memory() {
  Reach reach{.is_host_wide = true, .hosts = kRanks, .buffer_bytes = kBufferBytes};
  reach.slots.take({{operator_of<AllReduce>, 4096, 1.0, 3.0},
                    {operator_of<AllReduce>, kSlotLimit, 5.0, 6.0},
                    {operator_of<AllReduce>, 32768, 20.0, 9.0}});
  return reach;
}

Call all_reduce_of(std::size_t bytes) {
  return make_call_of_size(operator_of<AllReduce>, DataType::float32, bytes, 4);
}

const Explanation::Line& line_of(const Explanation& explanation, std::string_view name) {
  const auto found = std::find_if(explanation.candidates.begin(), explanation.candidates.end(),
                                  [&](const auto& line) { return line.candidate.algorithm == name; });
  return *found;
}

Explanation explain(const Call& call, const Reach& reach, const Forced& forced = {}) {
  return explain_choice(call, reach, AlgorithmTable::library(), forced, {});
}

TEST(Explanation, over_links_the_chosen_one_has_the_least_estimate_of_those_shown) {
  for (const std::size_t bytes : {8, 4096, 65536, 1 << 20, 64 << 20}) {
    const Explanation explanation = explain(all_reduce_of(bytes), over_links());
    EXPECT_EQ(explanation.basis, Basis::cheapest);
    ASSERT_TRUE(explanation.estimate_us);
    std::size_t compared = 0;
    for (const Explanation::Line& line : explanation.candidates) {
      if (!line.candidate.estimate_us) continue;
      ++compared;
      EXPECT_GE(*line.candidate.estimate_us, tuning::choosing::kLess * *explanation.estimate_us)
          << line.candidate.algorithm;
    }
    EXPECT_GE(compared, 4U);
    EXPECT_THAT(explanation.reason, HasSubstr("least estimate"));
    EXPECT_THAT(explanation.reason, Not(HasSubstr("message")));  // of the model, which is told once
  }
}

TEST(Explanation, where_ranks_share_cores_the_least_is_named_beside_one_of_fewer_rounds) {
  LinkSpeed speed{.message_us = 4.1, .byte_us = 1e-4, .combine_us = 1.2e-5, .copy_us = 7.4e-6};
  speed.ranks_per_core = 2;
  Reach reach = over_links();
  reach.model = CostModel(speed, kRanks);
  const Explanation explanation = explain(all_reduce_of(16 << 20), reach);
  EXPECT_EQ(explanation.chosen, "mesh");
  EXPECT_THAT(explanation.reason, HasSubstr("fewest rounds"));
  EXPECT_THAT(explanation.reason, HasSubstr("the least is rhd with"));
  EXPECT_THAT(line_of(explanation, "rhd").note, HasSubstr("more rounds"));
}

TEST(Explanation, between_hosts_the_least_is_named_beside_one_from_neighbour_to_neighbour) {
  Reach reach = over_links();
  const NetworkSpeed gigabit{.byte_us = 8e-3, .ports = kRanks};
  reach.model = CostModel(reach.model.speed(), kRanks, gigabit);
  const Explanation explanation = explain(all_reduce_of(16 << 20), reach);
  EXPECT_EQ(explanation.chosen, "ring");
  EXPECT_EQ(explanation.basis, Basis::neighbours);
  EXPECT_THAT(explanation.reason, HasSubstr("from neighbour to neighbour, of the least estimates"));
  EXPECT_THAT(explanation.reason, HasSubstr("the least is mesh with"));
  EXPECT_THAT(line_of(explanation, "mesh").note, HasSubstr("more partners"));
}

/// tree and recursive_doubling come to the same, but for rounding.
TEST(Explanation, of_equal_estimates_none_is_said_to_be_lower) {
  for (int thousandths = 4000; thousandths < 4100; ++thousandths) {
    LinkSpeed speed{.message_us = thousandths / 1e3};
    speed.ranks_per_core = 2;
    Reach reach = over_links();
    reach.model = CostModel(speed, kRanks);
    const Explanation explanation =
        explain(make_call_of_size(operator_of<Barrier>, DataType::float32, 0, kRanks), reach);
    EXPECT_THAT(explanation.reason, Not(HasSubstr("fewest rounds"))) << speed.message_us;
  }
}

TEST(Explanation, over_links_mapped_memory_is_named_as_what_direct_lacks) {
  const Explanation explanation = explain(all_reduce_of(4096), over_links());
  const Explanation::Line& direct = line_of(explanation, "direct");
  EXPECT_EQ(direct.candidate.state, Candidate::State::needs_one_host);
  EXPECT_FALSE(direct.candidate.estimate_us);
  EXPECT_THAT(direct.note, HasSubstr("memory that all ranks map"));
}

TEST(Explanation, small_data_between_ranks_of_a_host_names_the_measured_limit_of_slots) {
  const Explanation explanation = explain(all_reduce_of(4096), over_memory());
  EXPECT_EQ(explanation.chosen, "slots");
  EXPECT_EQ(explanation.basis, Basis::arrival);
  EXPECT_EQ(explanation.estimate_us, 1.0);
  EXPECT_THAT(explanation.reason, HasSubstr("faster up to 16384"));
  EXPECT_THAT(explanation.reason, HasSubstr("1.00 us in slots, 3.00 us with direct"));
  EXPECT_EQ(line_of(explanation, "direct").candidate.estimate_us, 3.0);
}

TEST(Explanation, beyond_slots_the_estimate_lies_between_the_measured_sizes) {
  const Explanation explanation = explain(all_reduce_of(24576), over_memory());
  EXPECT_EQ(explanation.chosen, "direct");
  EXPECT_EQ(explanation.basis, Basis::mapped_memory);
  EXPECT_EQ(explanation.estimate_us, 7.5);
  EXPECT_EQ(line_of(explanation, "slots").candidate.estimate_us, 12.5);
  EXPECT_THAT(line_of(explanation, "slots").note, HasSubstr("up to 16384"));
  const Explanation large = explain(all_reduce_of(1 << 20), over_memory());
  EXPECT_FALSE(large.estimate_us) << "nothing was measured there";
}

TEST(Explanation, a_forced_algorithm_names_who_forces_it) {
  const Call call = all_reduce_of(4096);
  const Explanation by_all = explain(call, over_links(), {.by_communicator = "ring"});
  EXPECT_EQ(by_all.chosen, "ring");
  EXPECT_THAT(by_all.reason, HasSubstr("COHORT_ALGO"));
  const Explanation by_call = explain(call, over_links(), {.by_call = "mesh", .by_communicator = "ring"});
  EXPECT_EQ(by_call.chosen, "mesh");
  EXPECT_THAT(by_call.reason, HasSubstr("the call forces it"));
  EXPECT_THAT(line_of(by_call, "ring").note, HasSubstr("forced"));
}

TEST(Explanation, determinism_names_those_that_it_leaves_out) {
  Call call = all_reduce_of(1 << 20);
  call.ask_for(Determinism::D3);
  const Explanation explanation = explain(call, over_links());
  EXPECT_EQ(explanation.determinism, Determinism::D3);
  EXPECT_EQ(explanation.chosen, "mesh");
  EXPECT_THAT(explanation.reason, HasSubstr("D3, of those that combine by rank, step by step: least"));
  EXPECT_EQ(line_of(explanation, "ring").candidate.state, Candidate::State::other_order);
  EXPECT_EQ(line_of(explanation, "ring").note, "combines in an order of its own: not D3");
  EXPECT_THAT(line_of(explanation, "one_shot").note, HasSubstr("possible"));
}

TEST(Explanation, one_forced_for_all_calls_that_cannot_run_this_one_is_named) {
  const Explanation explanation = explain(all_reduce_of(4096), over_links(), {.by_communicator = "direct"});
  EXPECT_EQ(explanation.basis, Basis::cheapest);
  EXPECT_THAT(explanation.reason, HasSubstr("direct is forced for the operator but cannot run this call"));
}

TEST(Explanation, a_message_in_pieces_costs_what_all_of_them_do) {
  const auto moved = [](std::size_t bytes) {
    const Explanation explanation = explain(all_reduce_of(bytes), over_links());
    return line_of(explanation, "ring").candidate.cost->bytes_moved;
  };
  EXPECT_DOUBLE_EQ(moved(64 * kBufferBytes), 64 * moved(kBufferBytes));
}

TEST(Explanation, an_algorithm_without_a_schedule_for_the_operator_says_so) {
  Call call = all_reduce_of(1 << 20);
  call.op = operator_of<Broadcast>;
  const Explanation explanation = explain(call, over_links());
  const Explanation::Line& line = line_of(explanation, "recursive_doubling");
  EXPECT_EQ(line.candidate.state, Candidate::State::not_written);
  EXPECT_FALSE(line.candidate.cost);
  EXPECT_THAT(line.note, HasSubstr("no schedule for broadcast"));
}

class ExplainedCalls : public testing::TestWithParam<std::tuple<const char*, Rank>> {};

/// Whole elements, the same number for each rank.
std::vector<std::size_t> sizes_for(Rank ranks) {
  std::vector<std::size_t> sizes = {0};
  for (std::size_t share = 4; share <= (std::size_t{1} << 20); share *= 4) sizes.push_back(share * ranks);
  return sizes;
}

/// What a call of that size is run by.
std::string_view selected_for(Communicator& comm, Operator op, std::size_t bytes) {
  const std::size_t count = op->has_data ? bytes / sizeof(float) / op.elements_per_count(comm.size()) : 0;
  const Extent extent = op->extent({.count = count, .ranks = comm.size()}, comm.rank());
  std::vector<float> in(extent.send);
  std::vector<float> out(extent.recv);
  const CallArguments arguments{.type = DataType::float32,
                                .in = std::as_bytes(std::span(in)),
                                .out = std::as_writable_bytes(std::span(out))};
  return comm.call(op, arguments).algorithm();
}

TEST_P(ExplainedCalls, run_by_the_algorithm_that_is_explained) {
  const auto [transport, ranks] = GetParam();
  CommunicatorOptions options;
  options.transport = transport;
  options.is_isolated = true;
  auto body = [](Communicator& comm) -> Task<> {
    for (const std::size_t bytes : sizes_for(comm.size())) {
      for (const Operator op : all_operators()) {
        const Explanation explanation = comm.explain(op, DataType::float32, bytes);
        EXPECT_EQ(explanation.chosen, selected_for(comm, op, bytes))
            << to_string(op) << " of " << bytes << " bytes: " << explanation.reason;
        EXPECT_EQ(line_of(explanation, explanation.chosen).note, "chosen");
        EXPECT_EQ(line_of(explanation, explanation.chosen).candidate.state, Candidate::State::possible);
      }
    }
    co_await comm.barrier();
  };
  test::run_ranks(ranks, body, std::move(options));
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ExplainedCalls,
                         testing::Combine(testing::Values("shm", "tcp"),
                                          testing::Values(Rank{1}, Rank{2}, Rank{3}, Rank{8})),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param));
                         });

TEST(ExplainedCall, that_could_not_be_made_is_refused_as_the_call_is) {
  CommunicatorOptions options;
  options.transport = "tcp";
  auto body = [](Communicator& comm) -> Task<> {
    const auto refusal = [&](Operator op, std::size_t bytes, std::string_view forced) {
      try {
        (void)comm.explain(op, DataType::float32, bytes, forced);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string("accepted");
    };
    EXPECT_THAT(refusal(operator_of<AllReduce>, 7, {}), HasSubstr("no whole number of float32"));
    EXPECT_THAT(refusal(operator_of<ReduceScatter>, 12, {}), HasSubstr("pad the input with 1"));
    EXPECT_THAT(refusal(operator_of<AllGather>, 12, {}), HasSubstr("pad the output with 1"));
    EXPECT_THAT(refusal(operator_of<AllReduce>, 8, "direct"), HasSubstr("choose one of: one_shot"));
    co_await comm.barrier();
  };
  test::run_ranks(2, body, std::move(options));
}

}  // namespace
}  // namespace cohort::explanation_test
