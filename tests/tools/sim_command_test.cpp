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
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

namespace cohort::sim_command_test {
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
  const std::string guide = contents(COHORT_TEST_SOURCE_DIR "/docs/extend/simulate.md");
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

TEST(SimCommandTest, drawing_tells_all_algorithms_apart) {
  const std::string path = ::testing::TempDir() + "/sim_all.svg";
  EXPECT_EQ(
      sim("all_reduce --ranks 64 --bytes 1M --topology samples/topologies/cluster.json --svg " + path).first,
      0);
  const std::string svg = contents(path);
  const std::regex mark("<path d=\"M[0-9.]+,[0-9.]+(m[^\"]*)\" fill=\"([^\"]*)\"/>");
  std::map<std::string, int> seen;
  for (std::sregex_iterator at(svg.begin(), svg.end(), mark), end; at != end; ++at)
    ++seen[(*at)[1].str() + (*at)[2].str()];
  EXPECT_GE(seen.size(), 14U);
  for (const auto& [style, times] : seen) EXPECT_EQ(times, 2) << style;  // of its one size, and of its name
}

TEST(SimCommandTest, the_table_has_a_header_and_the_fastest_first) {
  const auto [status, output] = sim("all_reduce --ranks 16 --bytes 1K,1M");
  EXPECT_EQ(status, 0);
  EXPECT_THAT(output, HasSubstr("\nalgorithm                size        time (us)     messages\n"));
  std::istringstream words(output.substr(output.find("messages\n") + 9));
  std::string before;
  double last = 0;
  std::size_t rows = 0;
  for (std::string algorithm, size, time, messages; words >> algorithm >> size >> time >> messages;) {
    if (size != "1K" && size != "1M") break;
    if (time == "left") continue;
    if (size != before) last = 0;
    EXPECT_GE(std::stod(time), last) << algorithm << " " << size;
    last = std::stod(time);
    before = size;
    ++rows;
  }
  EXPECT_GT(rows, 20U);
}

TEST(SimCommandTest, files_are_opened_and_roots_looked_at_before_anything_is_simulated) {
  const auto [status, output] = sim("all_reduce --ranks 64 --bytes 64M --svg /no/such/folder/file");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output, ::testing::StartsWith("cohort: "));
  const auto [of_root, told] = sim("broadcast -n 16 --root 30");
  EXPECT_EQ(of_root, 2);
  EXPECT_THAT(told, ::testing::StartsWith("cohort: --root: root 30 is no rank of 16: give one from 0 to 15"));
}

TEST(SimCommandTest, sizes_are_numbers) {
  const auto [status, output] = sim("all_reduce -n 2 --bytes 8,,9");
  EXPECT_EQ(status, 2);
  EXPECT_THAT(output, HasSubstr("--bytes: SIZE=''"));
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
  EXPECT_THAT(complaint(R"({"rials": 2})"), HasSubstr("rials is unknown; rails may be meant"));
  EXPECT_THAT(complaint(R"({"rails": -2})"), HasSubstr("rails is -2"));
  EXPECT_THAT(complaint(R"({"inside": {"latency_ns": "x"}})"), HasSubstr("inside: latency_ns"));
  EXPECT_THAT(complaint(R"({"faults": {"dead_ranks": [{"rank": 1, "stop": 2}]}})"),
              HasSubstr("faults: dead_ranks[0]: stop"));
  EXPECT_THAT(complaint(R"({"ranks_of_hosts": [2, "x"]})"), HasSubstr("ranks_of_hosts[1] is \"x\""));
  EXPECT_THAT(complaint(R"({"ranks_of_hosts": [4294967296]})"), HasSubstr("ranks_of_hosts[0]"));
  EXPECT_THAT(complaint(R"({"faults": {"lost_links": [{"at_ns": true}]}})"), HasSubstr("at_ns is true"));
  EXPECT_THAT(complaint(R"({"gigabytes_per_second_of_hosts": [50, 0]})"),
              HasSubstr("gigabytes_per_second_of_hosts[1] is 0"));
  EXPECT_EQ(complaint(R"({"rails": 2, "ranks_of_hosts": [4, 2]})"), "");
}

TEST(SimCommandTest, numbers_of_a_topology_are_told_with_their_range) {
  const auto told = [](const std::string& member, const std::string& value, const std::string& expected) {
    EXPECT_THAT(complaint(fmt::format(R"({{"{}": {}}})", member, value)),
                AllOf(HasSubstr(fmt::format("t.json: {} is {}; ", member, value)), HasSubstr(expected)));
  };
  for (const char* const ranks : {"0", "4294967296", "4294967297", "1.5", "-1"})
    told("ranks_per_host", ranks, "a count from 1 to 1048576 is expected");
  told("cores_per_host", "99999999999", "a count from 0 to 1048576 is expected");
  told("hosts_per_switch", "4294967297", "a count from 0 to 1048576 is expected");
  told("rails", "1025", "a count from 0 to 1024 is expected");
  told("cache_bytes", "1099511627777", "a count from 0 to 1099511627776 is expected");
  told("oversubscription", "0", "a number from 0.0001 to 10000 is expected");
  told("switch_latency_ns", "1e+16", "a number from 0 to 1000000000 is expected");
  told("core_switch_ns", "-1", "a number from 0 to 1000000000 is expected");
  for (const char* const member : {"copy_gigabytes_per_second", "reduce_gigabytes_per_second"})
    told(member, "1e-300", "a number 0 or from 1e-06 to 1000000000 is expected");
  const auto told_of_link = [](const std::string& member, const std::string& value) {
    EXPECT_THAT(complaint(fmt::format(R"({{"network": {{"{}": {}}}}})", member, value)),
                HasSubstr(fmt::format("t.json: network: {} is {}; a ", member, value)));
  };
  for (const char* const member : {"latency_ns", "message_ns", "gap_ns"}) told_of_link(member, "1e+16");
  told_of_link("gigabytes_per_second", "0");
  for (const char* const member : {"gigabytes_per_second", "core_gigabytes_per_second"})
    for (const char* const rate : {"1e-300", "1e+300", "-1"}) told_of_link(member, rate);
  told_of_link("header_bytes", "1048577");
  EXPECT_THAT(complaint(R"({"ranks_of_hosts": [4, 0]})"), HasSubstr("ranks_of_hosts[1] is 0"));
  EXPECT_THAT(complaint(R"({"faults": {"dead_ranks": [{"rank": 4294967296}]}})"),
              HasSubstr("dead_ranks[0]: rank is 4294967296; a count from 0 to 1048575"));
  EXPECT_THAT(complaint(R"({"faults": {"dead_ranks": [{"step": 0}]}})"),
              HasSubstr("step is 0; a count from 1"));
  EXPECT_THAT(complaint(R"({"faults": {"late_ranks": [{"by_ns": 1e+16}]}})"), HasSubstr("by_ns is 1e+16; "));
  EXPECT_THAT(complaint(R"({"faults": {"slow_ranks": [{"factor": 0}]}})"), HasSubstr("factor is 0; "));
  EXPECT_EQ(complaint(R"({"network": {"core_gigabytes_per_second": 0, "latency_ns": 1e9}})"), "");
}

TEST(SimCommandTest, numbers_that_no_type_holds_are_told_with_their_place) {
  EXPECT_EQ(complaint(R"({"inside": {"gap_ns": 1}, "network": {"gigabytes_per_second": 1e400}})"),
            "t.json: network: gigabytes_per_second: number overflow parsing '1e400'");
  EXPECT_EQ(complaint("-1e400"), "t.json: number overflow parsing '-1e400'");
  EXPECT_THAT(complaint(R"({"rails": 99999999999999999999})"), HasSubstr("rails is 1e+20; a count"));
}

TEST(SimCommandTest, member_that_is_given_twice_is_named) {
  EXPECT_EQ(complaint(R"({"rails": 1, "rails": 2})"), "t.json: rails is given twice");
  EXPECT_EQ(complaint(R"({"inside": {"gap_ns": 1}, "network": {"gap_ns": 1, "gap_ns": 1}})"),
            "t.json: network: gap_ns is given twice");
  EXPECT_EQ(complaint(R"({"faults": {"slow_ranks": [{"rank": 1}, {"rank": 2}]}, "rails": 1})"), "");
}

TEST(SimCommandTest, topology_out_of_range_ends_it_as_any_bad_file_does) {
  const std::string path = ::testing::TempDir() + "/out_of_range.json";
  for (const char* const text : {R"({"ranks_per_host": 0})", R"({"network": {"latency_ns": 1e400}})"}) {
    std::ofstream(path) << text;
    const auto [status, output] = sim("barrier --algorithm tree --ranks 2 --topology " + path);
    EXPECT_EQ(status, 1) << text;
    EXPECT_THAT(output, HasSubstr("cohort: "));
    EXPECT_THAT(output, HasSubstr(path + ": "));
  }
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

TEST(SimCommandTest, a_trace_that_finds_no_room_fails_it_at_the_end) {
  const auto [status, output] = sim("all_gather --ranks 64 --bytes 4K --trace /dev/full");
  EXPECT_EQ(status, 1);
  EXPECT_THAT(output, HasSubstr("/dev/full: cannot be written: No space left on device"));
}

TEST(SimCommandTest, output_that_is_lost_fails_it) {
  const auto [status, output] = sim("all_reduce --ranks 2 2>&1 > /dev/full; echo status $?");
  EXPECT_THAT(output, AllOf(HasSubstr("results are lost"), HasSubstr("status 1")));
}

TEST(SimCommandTest, an_error_that_nobody_reads_fails_it_all_the_same) {
  EXPECT_EQ(sim("all_reduce --ranks 4 --topology /no/such/file 2> /dev/full").first, 1);
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
}  // namespace cohort::sim_command_test
