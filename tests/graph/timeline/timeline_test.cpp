// SPDX-License-Identifier: Apache-2.0
#include <cohort/graph/timeline/timeline.h>

#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/graph/timeline/predict.h>
#include <cohort/graph/timeline/trace.h>
#include <cohort/tests/graph/networks.h>
#include <cohort/tests/graph/planner/random_items.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::graph::timeline_test {
namespace {

using ::testing::HasSubstr;

constexpr NodeKind kLink = NodeKind::collective;
constexpr NodeKind kCore = NodeKind::compute;

TEST(Timeline, what_nothing_is_computed_beside_is_exposed) {
  Timeline timeline;
  timeline.spans = {{NodeId{0}, kCore, 0, 10},
                    {NodeId{1}, kLink, 5, 30},
                    {NodeId{2}, kCore, 12, 20},
                    {NodeId{3}, kCore, 25, 28},
                    {NodeId{4}, kLink, 40, 50}};
  const std::vector<ExposedPart> exposed = exposed_parts(timeline);
  ASSERT_EQ(exposed.size(), 2U);
  EXPECT_DOUBLE_EQ(exposed[0].us(), 2 + 5 + 2);
  EXPECT_EQ(exposed[0].parts.size(), 3U);
  EXPECT_DOUBLE_EQ(exposed[1].us(), 10);
  EXPECT_DOUBLE_EQ(timeline.step_us(), 50);
}

TEST(Timeline, a_summary_tells_overlap_from_the_seeds_efficiency) {
  Graph graph;
  graph.add_node({.name = "compute", .op = "x", .phase = Phase::backward});
  graph.add_node({.name = "hidden", .op = "all_reduce", .kind = kLink});
  Timeline hidden;
  hidden.spans = {{NodeId{0}, kCore, 0, 100}, {NodeId{1}, kLink, 0, 50}};
  Timeline exposed;
  exposed.spans = {{NodeId{0}, kCore, 0, 100}, {NodeId{1}, kLink, 100, 150}};
  EXPECT_DOUBLE_EQ(summarize(graph, hidden).overlap(), 1);
  EXPECT_DOUBLE_EQ(summarize(graph, exposed).overlap(), 0);
  EXPECT_DOUBLE_EQ(summarize(graph, hidden).seed_efficiency(), summarize(graph, exposed).seed_efficiency());
  EXPECT_EQ(summarize(graph, exposed).backward_end_us, 100);
  EXPECT_THAT(summarize(graph, exposed).text(), HasSubstr("exposed 50.0 us, overlap 0.0 %"));
}

TEST(Predict, ends_when_the_plan_says) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    test::Random random(seed);
    std::vector<test::Layer> layers;
    for (std::uint64_t i = test::whole(random, 1, 12); i > 0; --i)
      layers.push_back({static_cast<std::int64_t>(test::whole(random, 1, 3000)), test::uniform(random, 0, 30),
                        test::uniform(random, 0, 60)});
    InsertOptions options;
    options.strategy = static_cast<Strategy>(test::whole(random, 0, 3));
    if (options.strategy == Strategy::hierarchical) options.strategy = Strategy::smart_overlap;
    options.cost = Cost::of(test::random_line(random));
    const Insertion made = insert_all_reduce(test::chain_of(layers), options);
    const Timeline timeline = predict_step(made.graph, options.cost);
    const Summary summary = summarize(made.graph, timeline);
    EXPECT_NEAR(summary.communication_end_us, made.plan.finish_us, 1e-6) << "seed " << seed;
    EXPECT_NEAR(summary.exposed_us, summary.communication_end_us - summary.backward_end_us,
                1e-6 + summary.exposed_us)
        << "seed " << seed;
    EXPECT_LE(summary.exposed_us, summary.communication_us + 1e-9);
  }
}

TEST(Predict, a_collective_without_a_cost_is_named) {
  const Graph graph = insert_all_reduce(test::chain_of_equal(1, 4, 1), {}).graph;
  EXPECT_THROW((void)predict_step(graph, [](const Node&) { return nullptr; }), GraphError);
}

TEST(Trace, has_a_track_each_for_compute_communication_and_what_is_exposed) {
  const Graph graph = insert_all_reduce(test::chain_of_equal(2, 400, 10), {}).graph;
  const Timeline timeline = predict_step(graph, Cost::of(LinearCost{5, 5, 0.01}));
  const std::vector<Timeline> steps = {timeline, timeline};
  const std::string trace = to_chrome_trace(graph, steps, 3);
  EXPECT_THAT(trace, HasSubstr("\"name\": \"rank 3\""));
  for (const char* track : {"compute", "communication", "exposed"})
    EXPECT_THAT(trace, HasSubstr(fmt::format("\"args\": {{\"name\": \"{}\"}}", track)));
  EXPECT_THAT(trace, HasSubstr("\"bucket\": 0, \"bytes\": "));
  const std::vector<std::string> both = {trace, to_chrome_trace(graph, steps, 4)};
  EXPECT_THAT(join_traces(both), HasSubstr("\"name\": \"rank 4\""));
}

}  // namespace
}  // namespace cohort::graph::timeline_test
