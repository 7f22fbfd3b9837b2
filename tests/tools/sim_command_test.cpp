// SPDX-License-Identifier: Apache-2.0
// `cohort sim` as a user starts it, and the example of its guide.
#include <cohort/tools/sim/drawing.h>
#include <cohort/tools/sim/topology_file.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::pair<int, std::string> sim(const std::string& arguments) {
  const std::string program = std::string(COHORT_TEST_BIN_DIR) + "/cohort";
  EXPECT_TRUE(std::filesystem::exists(program)) << "build cohort_command first";
  const std::string command =
      "cd '" COHORT_TEST_SOURCE_DIR "' && '" + program + "' sim " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> some{};
  while (std::fgets(some.data(), some.size(), pipe) != nullptr) output += some.data();
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string complaint(const std::string& text) {
  try {
    (void)cohort::sim::parse_topology(text, "t.json");
  } catch (const cohort::Error& error) {
    return std::string(error.message());
  }
  return "";
}

TEST(SimCommandTest, output_of_the_guide_is_what_the_command_prints) {
  const std::string guide = contents(COHORT_TEST_SOURCE_DIR "/docs/simulate.md");
  const std::string prompt = "$ cohort sim ";
  std::size_t examples = 0;
  for (std::size_t at = guide.find(prompt); at != std::string::npos; at = guide.find(prompt, at + 1)) {
    const std::size_t begin = at + prompt.size();
    const std::size_t line = guide.find('\n', begin);
    const std::string expected = guide.substr(line + 1, guide.find("```", line) - line - 1);
    EXPECT_EQ(sim(guide.substr(begin, line - begin)).second, expected);
    ++examples;
  }
  EXPECT_EQ(examples, 2U);
}

TEST(SimCommandTest, same_seed_writes_the_same_trace) {
  const std::string folder = ::testing::TempDir();
  const auto trace = [&](const std::string& seed) {
    const std::string path = folder + "/sim_trace_" + seed;
    EXPECT_EQ(sim("all_gather --ranks 8 --bytes 4K --seed " + seed + " --trace " + path).first, 0);
    return contents(path);
  };
  const std::string first = trace("3");
  EXPECT_THAT(first, HasSubstr(" send "));
  EXPECT_EQ(trace("3"), first);
  EXPECT_NE(trace("4"), first);
}

TEST(SimCommandTest, drawing_has_a_curve_and_a_row_for_each_algorithm) {
  const std::string path = ::testing::TempDir() + "/sim.svg";
  EXPECT_EQ(sim("all_reduce --ranks 8 --sizes 1K,1M --svg " + path).first, 0);
  const std::string svg = contents(path);
  EXPECT_THAT(svg, AllOf(HasSubstr(">ring<"), HasSubstr(">recursive_doubling<"), HasSubstr("<polyline"),
                         HasSubstr("host 0 NIC 0 out: busy"), HasSubstr(">1M<"), HasSubstr(">100 us<"),
                         HasSubstr("</svg>")));
}

TEST(SimCommandTest, elements_of_any_type_are_cut_between_them) {
  const auto [status, output] = sim("all_reduce -n 3 --type float8_e4m3 --bytes 7 --algorithm ring");
  EXPECT_EQ(status, 0) << output;
  EXPECT_THAT(output, HasSubstr("ring"));
}

TEST(SimCommandTest, rank_that_dies_makes_the_status_1) {
  const auto [status, output] =
      sim("all_reduce --ranks 8 --algorithm ring --topology samples/topologies/faults.json");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output, AllOf(HasSubstr("never ends"), HasSubstr("rank 2 died at"),
                            HasSubstr("waits for bytes from rank 2, which died")));
}

TEST(SimCommandTest, wrong_topology_is_named_with_its_member) {
  EXPECT_THAT(complaint("{"), HasSubstr("t.json: is no JSON: parse error at line 1, column 2"));
  EXPECT_THAT(complaint(R"({"rials": 2})"), HasSubstr("rials is unknown"));
  EXPECT_THAT(complaint(R"({"rails": -2})"), HasSubstr("rails is -2"));
  EXPECT_THAT(complaint(R"({"inside": {"latency_ns": "x"}})"), HasSubstr("inside: latency_ns"));
  EXPECT_THAT(complaint(R"({"faults": {"dead_ranks": [{"rank": 1, "stop": 2}]}})"),
              HasSubstr("faults: dead_ranks[0]: stop"));
  EXPECT_THAT(complaint(R"({"ranks_of_hosts": [2, "x"]})"), HasSubstr("ranks_of_hosts[1] is \"x\""));
  EXPECT_THAT(complaint(R"({"ranks_of_hosts": [4294967296]})"), HasSubstr("ranks_of_hosts[0]"));
  EXPECT_THAT(complaint(R"({"faults": {"lost_links": [{"at_ns": true}]}})"), HasSubstr("at_ns is true"));
  EXPECT_EQ(complaint(R"({"rails": 2, "ranks_of_hosts": [4, 2]})"), "");
}

TEST(SimCommandTest, says_why_a_file_cannot_be_read_or_written) {
  const std::string ring = "all_reduce --ranks 2 --algorithm ring ";
  EXPECT_THAT(sim(ring + "--topology none.json").second,
              HasSubstr("none.json: cannot be read: No such file"));
  EXPECT_THAT(sim(ring + "--topology .").second, HasSubstr(".: cannot be read: Is a directory"));
  const std::string long_name(300, 'a');
  EXPECT_THAT(sim(ring + "--topology " + long_name).second,
              HasSubstr(long_name + ": cannot be read: File name too long"));
  for (const std::string option : {"--svg", "--trace"}) {
    const auto [status, output] = sim(ring + option + " /no/such/folder/file");
    EXPECT_EQ(status, 1);
    EXPECT_THAT(output, HasSubstr("/no/such/folder/file: cannot be written: No such file"));
  }
}

TEST(SimCommandTest, output_that_is_lost_fails_it) {
  const auto [status, output] = sim("all_reduce --ranks 2 2>&1 > /dev/full; echo status $?");
  EXPECT_THAT(output, AllOf(HasSubstr("results are lost"), HasSubstr("status 1")));
}

TEST(SimCommandTest, numbers_out_of_range_are_told_with_the_range) {
  for (const char* const number : {"x", "0", "-1"})
    EXPECT_THAT(sim(fmt::format("all_reduce --ranks 2 --most-messages {}", number)).second,
                HasSubstr("not in range 1.000000 to 1000000000000.000000"));
}

TEST(SimCommandTest, says_which_transports_the_library_uses_and_what_it_would_choose) {
  const auto [status, output] =
      sim("all_reduce --ranks 30 --bytes 8K --topology samples/topologies/unequal.json");
  EXPECT_EQ(status, 0);
  EXPECT_THAT(output, AllOf(HasSubstr("30 ranks on 4 hosts: shm within a host, tcp between hosts\n"),
                            HasSubstr("; the library chooses ")));
}

TEST(SimCommandTest, leaves_out_what_sends_too_many_messages_and_says_so) {
  const std::string sizes = "all_reduce --ranks 16 --bytes 1K,64M --most-messages 2000";
  const auto [status, output] = sim(sizes);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(output, AllOf(HasSubstr("one_shot             64M left out: "), HasSubstr("million messages"),
                            HasSubstr("--most-messages"), HasSubstr("fastest for 1K: ")));
  EXPECT_THAT(sim("all_reduce --ranks 16 --bytes 1M --algorithm ring --most-messages 2").second,
              HasSubstr("fastest for 1M: ring"));
  EXPECT_EQ(sim("all_reduce --ranks 16 --bytes 1M --most-messages 2").first, 2);
}

}  // namespace
