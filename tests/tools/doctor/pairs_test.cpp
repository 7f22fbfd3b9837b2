// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/doctor/pairs.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cohort::doctor::pairs_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Tournament, lets_all_pairs_meet_once_and_nobody_twice_at_a_time) {
  for (std::uint32_t hosts = 1; hosts <= 17; ++hosts) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> met;
    const auto rounds = tournament(hosts);
    EXPECT_LE(rounds.size(), hosts);
    for (const auto& partners : rounds)
      for (std::uint32_t host = 0; host < hosts; ++host) {
        ASSERT_LT(partners[host], hosts);
        ASSERT_EQ(partners[partners[host]], host);
        if (partners[host] > host) {
          EXPECT_TRUE(met.emplace(host, partners[host]).second);
        }
      }
    EXPECT_EQ(met.size(), hosts * (hosts - 1) / 2) << hosts;
  }
}

const std::vector<std::string> kHosts = {"a", "b", "c", "d"};

std::vector<Pair> all_alike() {
  std::vector<Pair> pairs;
  for (std::uint32_t first = 0; first < kHosts.size(); ++first)
    for (std::uint32_t second = first + 1; second < kHosts.size(); ++second) {
      Pair pair;
      pair.first = first;
      pair.second = second;
      pair.stage = Stage::done;
      pair.mtu = 1500;
      pair.latency_us = 50;
      pair.there_mbit_per_s = pair.back_mbit_per_s = 900;
      pairs.push_back(pair);
    }
  return pairs;
}

std::vector<std::string> problems(const std::vector<Pair>& pairs) {
  Findings findings;
  judge(pairs, kHosts, findings);
  std::vector<std::string> texts;
  for (const Finding& one : findings.all())
    if (one.severity == Severity::problem) {
      EXPECT_NE(one.fix, "");
      texts.push_back(one.check + ": " + one.text);
    }
  return texts;
}

TEST(Judging, finds_nothing_between_hosts_that_are_alike) { EXPECT_THAT(problems(all_alike()), IsEmpty()); }

TEST(Judging, names_a_host_that_is_slow_with_all_and_a_way_that_is_slow_alone) {
  std::vector<Pair> pairs = all_alike();
  for (Pair& pair : pairs)
    if (pair.first == 1 || pair.second == 1) pair.back_mbit_per_s = 95;
  EXPECT_THAT(problems(pairs), ::testing::ElementsAre(AllOf(HasSubstr("bandwidth of b"),
                                                            HasSubstr("95 Mbit/s"), HasSubstr("900"))));
  pairs = all_alike();
  pairs[5].there_mbit_per_s = 95;
  EXPECT_THAT(problems(pairs),
              ::testing::ElementsAre(HasSubstr("between c and d: 95 Mbit/s there, 900 back")));
}

TEST(Judging, names_what_does_not_get_through) {
  std::vector<Pair> pairs = all_alike();
  pairs[0].stage = Stage::connecting;
  pairs[1].stage = Stage::large_messages;
  pairs[2].stage = Stage::small_messages;
  EXPECT_THAT(problems(pairs),
              ::testing::ElementsAre(HasSubstr("a cannot connect to b"),
                                     AllOf(HasSubstr("between a and c"), HasSubstr("MTU of 1500")),
                                     HasSubstr("between a and d: they connect, and messages")));
}

TEST(Judging, names_clocks_that_differ_and_messages_that_are_late) {
  std::vector<Pair> pairs = all_alike();
  pairs[2].clock_ms = -3600;
  pairs[4].latency_us = 5000;
  EXPECT_THAT(problems(pairs), ::testing::UnorderedElementsAre(
                                   HasSubstr("clock of d: is -3600 ms against a's"),
                                   HasSubstr("between b and d: a message takes 5000 us, elsewhere 50")));
}

}  // namespace
}  // namespace cohort::doctor::pairs_test
