// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/rank_table.h>

#include <cohort/engine/error.h>
#include <cohort/net/join/join_options.h>
#include <cohort/tests/support/outcome.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace cohort::rank_table_test {
namespace {

using ::cohort::test::error_from;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

std::string device(const char* rank, const char* address = "192.168.100.1", const char* number = "0") {
  return fmt::format(R"({{"device_id":"{}","device_ip":"{}","rank_id":"{}"}})", number, address, rank);
}

std::string server(const std::string& name, const std::string& devices, const std::string& more = "") {
  return fmt::format(R"({{"server_id":"{}",{}"device":[{}]}})", name, more, devices);
}

std::string table(const std::string& servers, const char* status = "completed", const char* count = "2") {
  return fmt::format(R"({{"version":"1.0","status":"{}","server_count":"{}","server_list":[{}]}})", status,
                     count, servers);
}

std::string refusal_of(const std::string& text) {
  const auto found = error_from([&] { (void)parse_rank_table(text, "t.json"); });
  EXPECT_EQ(kind_of(found), "InvalidArgument") << text;
  return found ? std::string(found->message()) : "it was taken";
}

TEST(RankTable, gives_ranks_in_their_order_with_their_hosts) {
  const std::string text = table(server("b", device("2") + "," + device("1", "10.0.0.7", "1")) + "," +
                                 server("a", device("0"), R"("server_ip":"10.0.0.1",)"));
  const auto ranks = parse_rank_table(text, "t.json");
  ASSERT_TRUE(ranks);
  ASSERT_EQ(ranks->size(), 3U);
  EXPECT_EQ(ranks->at(0).address, "10.0.0.1") << "of the host, not of the device";
  EXPECT_EQ(ranks->at(1).address, "10.0.0.7");
  EXPECT_EQ(ranks->at(1).device, "1");
  EXPECT_EQ(ranks->at(2).server, "b");
}

TEST(RankTable, that_is_not_completed_is_none_yet) {
  EXPECT_FALSE(parse_rank_table(table("", "initializing"), "t.json"));
}

TEST(RankTable, is_refused_by_the_place_in_it) {
  EXPECT_THAT(refusal_of("{"), HasSubstr("t.json at $: it is no JSON"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("at $: an object belongs there"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("at $.status: it is missing"));
  EXPECT_THAT(refusal_of(table("")), HasSubstr("at $.server_list: a list belongs there"));
  EXPECT_THAT(refusal_of(table(server("a", device("0")))), HasSubstr("at $.server_count: it says \"2\""));
  EXPECT_THAT(
      refusal_of(table(server("a", device("0")) + "," + server("b", device("0")))),
      HasSubstr("at $.server_list[1].device[0].rank_id: rank 0 is at $.server_list[0].device[0], too"));
  EXPECT_THAT(refusal_of(table(server("a", device("0")) + "," + server("b", device("2")))),
              HasSubstr("rank 1 of 2 is missing, and this is rank 2"));
  EXPECT_THAT(refusal_of(table(server("a", device("0")) + "," + server("b", device("x")))),
              HasSubstr("at $.server_list[1].device[0].rank_id: 'x' is no number"));
  EXPECT_THAT(refusal_of(table(server("a", device("0", "NODE_IP")) + "," + server("b", device("1")))),
              HasSubstr("at $.server_list[0].device[0].device_ip: 'NODE_IP' is no address in numbers"));
  EXPECT_THAT(refusal_of(table(server("a", device("0")) + ",{}")),
              HasSubstr("at $.server_list[1].server_id: it is missing"));
}

/// A file, and the variables of a rank of it.
class RankTableFile : public ::testing::Test {
 protected:
  RankTableFile() { ::setenv("COHORT_RANK_TABLE", path_.c_str(), 1); }
  ~RankTableFile() override {
    for (const char* name : {"COHORT_RANK_TABLE", "COHORT_RANK", "COHORT_SIZE", "COHORT_JOIN_TIMEOUT",
                             "DEVICE_ID", "COHORT_PORT_RANGE"})
      ::unsetenv(name);
    std::filesystem::remove(path_);
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

  const std::string path_ =
      std::filesystem::temp_directory_path() / fmt::format("cohort-table-{}", ::getpid());
};

TEST_F(RankTableFile, is_waited_for_until_it_is_completed) {
  write(table("", "initializing"));
  ::setenv("COHORT_RANK", "1", 1);
  ::setenv("COHORT_PORT_RANGE", "5000-5000", 1);
  std::thread scheduler([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    write(table(server("a", device("0", "10.9.8.7")) + "," + server("b", device("1"))));
  });
  const JoinOptions options = JoinOptions::from_environment();
  scheduler.join();
  EXPECT_EQ(options.rank, 1U);
  EXPECT_EQ(options.size, 2U);
  EXPECT_EQ(options.address, "10.9.8.7:5000");
}

TEST_F(RankTableFile, that_does_not_come_is_told) {
  ::setenv("COHORT_JOIN_TIMEOUT", "300ms", 1);
  const auto found = error_from([] { (void)JoinOptions::from_environment(); });
  ASSERT_EQ(kind_of(found), "MissingRanks");
  EXPECT_THAT(found->what(), HasSubstr("it is not there"));
}

TEST_F(RankTableFile, says_which_rank_the_only_one_of_this_host_is_and_whom_it_contradicts) {
  const std::string text =
      table(server("a", device("0", "10.9.8.7")) + "," +
            server("b", device("1", "127.0.0.1", "0") + "," + device("2", "127.0.0.1", "1")));
  write(text);
  auto found = error_from([] { (void)JoinOptions::from_environment(); });
  ASSERT_EQ(kind_of(found), "InvalidArgument");
  EXPECT_THAT(found->what(), HasSubstr("2 ranks at addresses of this host"));
  ::setenv("DEVICE_ID", "1", 1);
  EXPECT_EQ(JoinOptions::from_environment().rank, 2U);
  ::setenv("COHORT_RANK", "3", 1);
  found = error_from([] { (void)JoinOptions::from_environment(); });
  EXPECT_EQ(kind_of(found), "InvalidArgument");
  ::setenv("COHORT_RANK", "1", 1);
  ::setenv("COHORT_SIZE", "4", 1);
  found = error_from([] { (void)JoinOptions::from_environment(); });
  ASSERT_EQ(kind_of(found), "InvalidArgument");
  EXPECT_THAT(found->what(), HasSubstr("COHORT_SIZE=4, and the rank table"));
}

}  // namespace
}  // namespace cohort::rank_table_test
