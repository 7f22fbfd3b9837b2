// SPDX-License-Identifier: Apache-2.0
// `cohort run` and `cohort doctor --peers` as a user types them, where something is missing.
#include <cohort/tests/support/command.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace cohort::run_command_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr int kUsageStatus = 2;

/// As a user types it, with nothing of what a launcher would have set, or a node's own.
class RunCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name :
         {"JOB_COMPLETION_INDEX", "SLURM_NODEID", "PET_NODE_RANK", "COHORT_RANK", "COHORT_SIZE"})
      ::unsetenv(name);
    ::setenv("COHORT_ADDR", "127.0.0.1:29400", 1);
    ::setenv("COHORT_SECRET", std::string(64, 'a').c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("COHORT_ADDR");
    ::unsetenv("COHORT_SECRET");
  }

  static std::pair<int, std::string> cohort(const std::string& arguments) {
    const test::CommandOutcome outcome = test::run_cohort(arguments, true);
    return {outcome.status, outcome.text()};
  }
};

TEST_F(RunCommand, which_node_it_is_on_has_to_be_said) {
  EXPECT_THAT(
      cohort("run -n 2 --nodes 2 -- true"),
      Pair(kUsageStatus, AllOf(HasSubstr("--nodes 2: --node-rank is missing"), HasSubstr("from 0 to 1"))));
}

TEST_F(RunCommand, a_variable_for_the_node_that_is_empty_is_suspected) {
  for (const char* const empty :
       {"--node-rank $NOBODY_HAS_SET_IT", "--node-rank=", "--node-rank x", "--node-rank 2"})
    EXPECT_THAT(cohort(std::string("run -n 2 --nodes 2 ") + empty + " -- true"),
                Pair(kUsageStatus, AllOf(HasSubstr("--node-rank takes a number from 0 to 1"),
                                         HasSubstr("is a variable empty?"))))
        << empty;
}

TEST_F(RunCommand, the_node_may_be_said_by_who_starts_the_command_there) {
  const std::string ranks =
      "run -n 2 --nodes 3 --no-prefix -- sh -c 'echo rank $COHORT_RANK of $COHORT_SIZE'";
  for (const char* const variable : {"JOB_COMPLETION_INDEX", "SLURM_NODEID", "PET_NODE_RANK"}) {
    ::setenv(variable, "2", 1);
    EXPECT_THAT(cohort(ranks), Pair(0, AllOf(HasSubstr("rank 4 of 6"), HasSubstr("rank 5 of 6"))))
        << variable;
    ::unsetenv(variable);
  }
}

TEST_F(RunCommand, of_ranks_without_a_device_does_not_speak_of_a_rank_and_itself) {
  const std::string text = cohort("explain all_reduce --ranks 4 --transport verbs").second;
  EXPECT_THAT(text, Not(HasSubstr("rank 0 with rank 0")));
}

TEST_F(RunCommand, a_remote_shell_that_starts_nothing_fails_it_whatever_its_status) {
  for (const std::string shell : {"true", "false"})
    EXPECT_THAT(cohort("run --hosts 127.0.0.1,127.0.0.2 --rsh " + shell + " -- true"),
                Pair(1, AllOf(HasSubstr("nothing was started on 127.0.0."),
                              HasSubstr("before cohort's agent answered there"))));
}

TEST_F(RunCommand, a_directory_that_cannot_be_entered_is_told_with_what_to_do) {
  EXPECT_THAT(cohort("run -n 1 --directory /no/such/folder -- true"),
              Pair(1, AllOf(HasSubstr("'/no/such/folder' cannot be entered (No such file"),
                            HasSubstr("--directory"))));
}

TEST_F(RunCommand, a_folder_is_no_program) {
  EXPECT_THAT(cohort("run -n 2 -- /tmp"), Pair(127, HasSubstr("it is a folder: give a program")));
}

TEST_F(RunCommand, that_asks_for_peers_of_one_rank_alone_says_how_to_ask_for_peers) {
  EXPECT_THAT(cohort("doctor --peers"),
              Pair(kUsageStatus, AllOf(HasSubstr("--peers: one rank alone has no peers"),
                                       HasSubstr("cohort run --hosts"), Not(HasSubstr("SystemError")))));
}

TEST_F(RunCommand, of_the_doctor_tells_every_variable_with_which_ranks_do_not_join) {
  for (const std::string variable :
       {"COHORT_TRANSPORT=udp", "COHORT_ALGO=rings", "COHORT_BUFFSIZE=q", "COHORT_HOST_TIMEOUT=0",
        "COHORT_JOIN_TIMEOUT=0", "COHORT_TLS=maybe", "COHORT_IO=aio", "COHORT_SPIN_US=x",
        "COHORT_COMPUTE_THREADS=0", "COHORT_NAME='a b'", "COHORT_HEAPSIZE=q", "COHORT_AUTH=maybe"}) {
    const std::string name = variable.substr(0, variable.find('='));
    ::setenv(name.c_str(), variable.substr(name.size() + 1).c_str(), 1);
    const auto [status, text] = cohort("doctor");
    ::unsetenv(name.c_str());
    EXPECT_EQ(status, 1) << variable;
    EXPECT_THAT(text, AllOf(HasSubstr("PROBLEM  variable"), HasSubstr(name)));
  }
}

TEST_F(RunCommand, of_a_graph_tells_what_is_no_json_without_names_of_a_library) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "bad_graph.json";
  std::ofstream(file) << "{";
  EXPECT_THAT(cohort("graph " + file.string()),
              Pair(1, AllOf(HasSubstr("it is no JSON: parse error"), Not(HasSubstr("json.exception")))));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace cohort::run_command_test
