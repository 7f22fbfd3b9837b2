// SPDX-License-Identifier: Apache-2.0
// `cohort graph` as a user starts it.
#include <cohort/graph/graph_json.h>
#include <cohort/graph/passes/insert_all_reduce.h>
#include <cohort/tests/support/command.h>
#include <cohort/tools/graph/simulated_costs.h>
#include <cohort/tools/sim/topology_file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace cohort::graph_command_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kGraph = COHORT_TEST_SOURCE_DIR "/samples/graphs/transformer.json";
const std::string kCluster = COHORT_TEST_SOURCE_DIR "/samples/topologies/cluster.json";

test::CommandOutcome graph(const std::string& arguments) {
  return test::run_cohort("graph " + arguments, true);
}

TEST(GraphCommand, more_output_than_a_full_disk_takes_fails_it) {
  const test::CommandOutcome outcome = graph(kGraph + " --json 2>&1 > /dev/full; echo status $?");
  EXPECT_THAT(outcome.text(), ::testing::AllOf(HasSubstr("results are lost"), HasSubstr("status 1")));
}

TEST(GraphCommand, prints_text_and_the_json_that_it_reads) {
  const auto text = graph(kGraph);
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.lines.at(0), StartsWith("graph transformer: 112 nodes"));
  const auto json = graph(kGraph + " --json");
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(graph::parse_graph(json.text(), "printed").order().size(), 112U);
}

TEST(GraphCommand, draws_a_graph_with_its_collectives) {
  const std::string path = ::testing::TempDir() + "graph_command_test.svg";
  const auto outcome = graph(kGraph + " --insert smart_overlap --svg " + path);
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  std::ifstream file(path);
  std::stringstream svg;
  svg << file.rdbuf();
  EXPECT_THAT(svg.str(), StartsWith("<svg"));
  EXPECT_THAT(svg.str(), HasSubstr("reduce_bucket_0"));
  std::filesystem::remove(path);
}

TEST(GraphCommand, plans_beside_the_rules_of_others) {
  const auto outcome = graph(kGraph + " --plan --detail --ranks 16 --topology " + kCluster);
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  for (const char* part :
       {"bucket 0:", "by optimum", "no plan ends before", "(DDP)", "(Horovod)", "(MG-WFBP)"})
    EXPECT_THAT(outcome.text(), HasSubstr(part));
}

TEST(GraphCommand, simulates_every_strategy) {
  const auto outcome = graph(kGraph + " --simulate --ranks 32 --topology " + kCluster);
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  for (const char* part : {"32 ranks on 4 hosts", "\nsynchronous", "\ncompute_communication_overlap",
                           "\nhierarchical (shares)", "\nhierarchical (leader)", "\nsmart_overlap"})
    EXPECT_THAT(outcome.text(), HasSubstr(part));
  EXPECT_EQ(graph(kGraph + " --simulate --ranks 2 --topology " + kCluster).status, 0) << "ranks of one host";
}

TEST(GraphCommand, refuses_what_makes_no_sense) {
  const auto missing = graph("no/such/file.json");
  EXPECT_NE(missing.status, 0);
  EXPECT_THAT(missing.text(), HasSubstr("GE_DIST_GRAPH_BUILD_ERROR: no/such/file.json"));
  EXPECT_NE(graph(kGraph + " --insert wisely").status, 0);
  EXPECT_NE(graph(kGraph + " --plan --bucket-size many").status, 0);
}

TEST(SimulatedCosts, grow_with_bytes_and_shares_beat_leaders) {
  SimulatedCosts costs(sim::read_topology(kCluster), 32, std::uint64_t{64} << 20);
  EXPECT_EQ(costs.hosts(), 4U);
  const std::uint64_t large = std::uint64_t{16} << 20;
  const graph::Cost flat = costs.of(graph::ReduceForm::flat);
  EXPECT_LT(flat.idle(4096), flat.idle(large));
  EXPECT_LT(costs.of(graph::ReduceForm::shares).idle(large), costs.of(graph::ReduceForm::leader).idle(large));
  SimulatedCosts uneven(sim::read_topology(kCluster), 12, 4096);
  EXPECT_THROW((void)uneven.of(graph::ReduceForm::shares), Error);
}

}  // namespace
}  // namespace cohort::graph_command_test
