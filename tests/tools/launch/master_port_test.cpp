// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/master_port.h>

#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/processor.h>
#include <cohort/tests/support/process_support.h>
#include <cohort/tools/launch/launcher.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

namespace cohort::master_port_test {
namespace {

using ::testing::MatchesRegex;
using ::testing::StartsWith;
using namespace std::chrono_literals;

/// As a program binds it that knows nothing of anybody: without SO_REUSEADDR.
Descriptor bound_to(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  const bool is_bound = ::bind(socket.number(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  return is_bound ? std::move(socket) : Descriptor();
}

TEST(MasterPort, can_be_bound_and_is_no_other_jobs) {
  const auto first = MasterPort::choose();
  ASSERT_TRUE(first);
  EXPECT_TRUE(bound_to(first->number()).is_open());
  const std::uint16_t number = first->number();
  EXPECT_FALSE(MasterPort::choose(PortRange{number, number}));
}

TEST(MasterPort, comes_back_with_the_jobs_end) {
  std::uint16_t number = 0;
  {
    const auto first = MasterPort::choose();
    ASSERT_TRUE(first);
    number = first->number();
  }
  EXPECT_TRUE(MasterPort::choose(PortRange{number, number}));
}

TEST(MasterPort, is_none_that_somebody_is_bound_to) {
  std::uint16_t number = 0;
  {
    const auto first = MasterPort::choose();
    ASSERT_TRUE(first);
    number = first->number();
  }
  const Descriptor others = bound_to(number);
  ASSERT_TRUE(others.is_open());
  EXPECT_FALSE(MasterPort::choose(PortRange{number, number}));
}

TEST(MasterPort, is_left_out_by_ranks_that_look_for_one_in_its_range) {
  const std::optional<PortRange> range = PortRange{7000, 7002, 7001};
  std::set<unsigned> tried;
  const auto refuse = [&tried](const Address& at) -> int {
    tried.insert(at.port());
    throw Error(ErrorKind::SystemError, "taken");
  };
  EXPECT_THROW(listen_within(range, Address::parse_numeric("127.0.0.1:0"), refuse), Error);
  EXPECT_EQ(tried, (std::set<unsigned>{7000, 7002}));
}

TEST(MasterPort, host_of_an_address) {
  EXPECT_EQ(host_of("node1:29400"), "node1");
  EXPECT_EQ(host_of("[fd00::1]:29400"), "fd00::1");
  EXPECT_EQ(host_of("unix:cohort-1"), "");
}

constexpr const char* kPlace = "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT";

/// What ranks find, a line of each.
std::set<std::string> lines_of_ranks(unsigned ranks,
                                     std::vector<std::pair<std::string, std::string>> environment = {},
                                     std::optional<HostShare> share = {},
                                     const std::string& variables = kPlace) {
  const test::Collector output;
  LaunchOptions options{.ranks = ranks,
                        .command = {"/bin/sh", "-c", "echo " + variables},
                        .prefix_output = false,
                        .environment = std::move(environment),
                        .time_to_notice = 1min,
                        .time_to_end = 1min,
                        .output_descriptor = output.descriptor(),
                        .share = std::move(share)};
  Engine engine({.spin = Duration::zero()});
  EXPECT_EQ(engine.run(launch(engine, std::move(options))), 0);
  std::istringstream text(output.text());
  std::set<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.insert(line);
  return lines;
}

TEST(TorchVariables, name_the_place_of_each_rank_and_one_master) {
  const std::set<std::string> lines = lines_of_ranks(3);
  ASSERT_EQ(lines.size(), 3U);
  std::set<std::string> ports;
  for (const std::string& line : lines) ports.insert(line.substr(line.rfind(' ')));
  EXPECT_EQ(ports.size(), 1U);
  int rank = 0;
  for (const std::string& line : lines) {
    EXPECT_THAT(line, MatchesRegex("[0-2] 3 [0-2] 3 127.0.0.1 [0-9]+"));
    EXPECT_THAT(line, StartsWith(fmt::format("{0} 3 {0} 3 ", rank++)));
  }
}

TEST(TorchVariables, are_the_users_where_he_gives_them) {
  EXPECT_EQ(lines_of_ranks(1, {{"MASTER_PORT", "29500"}, {"LOCAL_RANK", "7"}}),
            std::set<std::string>{"0 1 7 1 127.0.0.1 29500"});
}

TEST(TorchVariables, of_a_share_of_a_job_name_the_whole_jobs_master_or_none) {
  HostShare share;
  share.first_rank = 2;
  share.size = 6;
  share.address = "10.0.0.1:5000";
  EXPECT_EQ(lines_of_ranks(2, {}, share), (std::set<std::string>{"2 6 0 2", "3 6 1 2"}));
  share.master = {"fd00::1", 4711};
  EXPECT_EQ(lines_of_ranks(2, {}, share),
            (std::set<std::string>{"2 6 0 2 fd00::1 4711", "3 6 1 2 fd00::1 4711"}));
}

/// Of each rank, where the launcher's environment has this one; nullptr: none.
std::set<std::string> threads_of_ranks(const char* inherited, unsigned ranks,
                                       std::vector<std::pair<std::string, std::string>> environment = {}) {
  constexpr const char* kName = "OMP_NUM_THREADS";
  const std::optional<std::string> before = environment::text(kName);
  inherited == nullptr ? ::unsetenv(kName) : ::setenv(kName, inherited, 1);
  std::set<std::string> found =
      lines_of_ranks(ranks, std::move(environment), {}, "[${OMP_NUM_THREADS-unset}]");
  before ? ::setenv(kName, before->c_str(), 1) : ::unsetenv(kName);
  return found;
}

TEST(ThreadsOfRanks, share_the_cores_and_have_one_at_least) {
  const unsigned cores = processor::available_cores();
  const std::string half = fmt::format("[{}]", std::max(1U, cores / 2));
  EXPECT_EQ(threads_of_ranks(nullptr, 2), std::set<std::string>{half});
  EXPECT_EQ(threads_of_ranks("", 2), std::set<std::string>{half});
  EXPECT_EQ(threads_of_ranks(nullptr, cores + 1), std::set<std::string>{"[1]"});
}

TEST(ThreadsOfRanks, are_all_cores_for_one_rank_and_what_the_user_says) {
  EXPECT_EQ(threads_of_ranks(nullptr, 1), std::set<std::string>{"[unset]"});
  EXPECT_EQ(threads_of_ranks("7", 2), std::set<std::string>{"[7]"});
  EXPECT_EQ(threads_of_ranks("7", 2, {{"OMP_NUM_THREADS", "3"}}), std::set<std::string>{"[3]"});
}

}  // namespace
}  // namespace cohort::master_port_test
