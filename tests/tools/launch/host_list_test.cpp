// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/host_list.h>

#include <cohort/engine/error.h>
#include <cohort/tools/launch/agent_plan.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace cohort::host_list_test {
namespace {

using ::testing::HasSubstr;
using Hosts = std::vector<HostSlots>;

template <class Call>
std::string refusal_of(const Call& call) {
  try {
    (void)call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
    return std::string(error.message());
  }
  return "it was taken";
}

TEST(HostList, has_names_counts_brackets_and_addresses) {
  EXPECT_EQ(parse_hosts("a,b:4,c"), (Hosts{{"a", 1}, {"b", 4}, {"c", 1}}));
  EXPECT_EQ(parse_hosts("n[01-03]:2,user@x"), (Hosts{{"n01", 2}, {"n02", 2}, {"n03", 2}, {"user@x", 1}}));
  EXPECT_EQ(parse_hosts("[fe80::1%eth0]:4,[::1],10.0.0.1:2"),
            (Hosts{{"fe80::1%eth0", 4}, {"::1", 1}, {"10.0.0.1", 2}}));
  EXPECT_EQ(parse_hosts("a,b,a:2"), (Hosts{{"a", 3}, {"b", 1}}));
}

TEST(HostList, with_a_number_of_ranks_that_is_none_says_so) {
  EXPECT_THAT(refusal_of([] { return parse_hosts("node1,a:x"); }),
              HasSubstr("--hosts: 'a:x': 'x' is no number of ranks, from 1 to 65536"));
}

TEST(HostList, that_is_none_is_refused) {
  for (const char* text :
       {"", "a,,b", "a:0", "a:x", "a:-1", "-oProxyCommand=x", "a;b", "a b", "fe80::1:2", "a:"})
    EXPECT_NE(refusal_of([&] { return parse_hosts(text); }), "it was taken") << text;
}

TEST(HostList, is_shared_out_host_after_host) {
  const Hosts hosts = {{"a", 2}, {"b", 3}, {"c", 1}};
  EXPECT_EQ(share_out(hosts, 0), hosts);
  EXPECT_EQ(share_out(hosts, 4), (Hosts{{"a", 2}, {"b", 2}}));
  EXPECT_THAT(refusal_of([&] { return share_out(hosts, 7); }), HasSubstr("7 ranks on 3 hosts with 6 slots"));
}

TEST(HostFile, has_a_host_a_line_and_comments) {
  const std::string path = std::filesystem::temp_directory_path() / "cohort-hostfile-test";
  std::ofstream(path) << "# hosts\n  a slots=2 # two\n\nb:3\r\nn[1-2]\nc,d:2\n";
  EXPECT_EQ(read_hostfile(path), (Hosts{{"a", 2}, {"b", 3}, {"n1", 1}, {"n2", 1}, {"c", 1}, {"d", 2}}));
  std::ofstream(path) << "a\nb max_slots=2\n";
  EXPECT_THAT(refusal_of([&] { return read_hostfile(path); }), HasSubstr(":2: 'max_slots=2' after the host"));
  std::ofstream(path) << "# nothing\n";
  EXPECT_THAT(refusal_of([&] { return read_hostfile(path); }), HasSubstr("names no host"));
  std::filesystem::remove(path);
  EXPECT_THAT(refusal_of([&] { return read_hostfile(path); }), HasSubstr("cannot be read"));
}

TEST(AgentPlan, comes_over_as_it_was_whatever_bytes_are_in_it) {
  AgentPlan plan;
  plan.version = "1.2.3";
  plan.token = "f00";
  plan.host = "b";
  plan.first_rank = 4;
  plan.ranks = 2;
  plan.size = 8;
  plan.directory = "/tmp/\xff\xfe";
  plan.command = {"./a", "line\nbreak", "quote\"s", "\x80\xc3\xa9", ""};
  plan.environment = {{"A", "1"}, {"B", std::string("\x01\x7f\xff=")}};
  plan.keeps_going = true;
  plan.time_to_end = std::chrono::milliseconds(1500);
  const std::string line = encode(plan);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const AgentPlan read = parse_agent_plan(line);
  EXPECT_EQ(read.command, plan.command);
  EXPECT_EQ(read.environment, plan.environment);
  EXPECT_EQ(read.directory, plan.directory);
  EXPECT_EQ(read.size, 8U);
  EXPECT_EQ(read.time_to_end, plan.time_to_end);
  EXPECT_TRUE(read.keeps_going);
}

TEST(AgentPlan, of_somebody_else_is_refused) {
  EXPECT_THAT(refusal_of([] { return parse_agent_plan("hello"); }), HasSubstr("--agent is for launchers"));
  EXPECT_THAT(refusal_of([] { return parse_agent_plan("{}"); }), HasSubstr("--agent is for launchers"));
}

}  // namespace
}  // namespace cohort::host_list_test
