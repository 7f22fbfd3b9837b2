// SPDX-License-Identifier: Apache-2.0
// What a job has measured serves the next one, and only under the same conditions.
#include <cohort/cohort.h>
#include <cohort/collectives/calibration/known_figures.h>
#include <cohort/collectives/selection/cost_model.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace cohort::known_figures_test {
namespace {

/// A file of this test's own, by the environment.
class KnownFiguresTest : public testing::Test {
 protected:
  KnownFiguresTest() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-known-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    EXPECT_EQ(::setenv("COHORT_CACHE", path().c_str(), 1), 0);
    EXPECT_EQ(::unsetenv("COHORT_CACHE_REFRESH"), 0);
  }
  ~KnownFiguresTest() override {
    EXPECT_EQ(::setenv("COHORT_CACHE", "off", 1), 0);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/figures"; }
  [[nodiscard]] KnownFigures known(std::string_view conditions = "here") { return {*platform_, conditions}; }
  /// Whatever this host does meanwhile.
  void keep(std::string_view key, std::span<const double> figures) const {
    FigureCache(path()).keep_from(std::chrono::system_clock::now(), key, figures);
  }
  /// Of keys that begin so, all numbers become that one: what a job has measured is told from what it knows.
  void set_all(std::string_view what, double figure) const {
    std::ifstream file(path());
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string seconds;
      std::string key;
      std::vector<double> figures;
      words >> seconds >> key;
      for (double one = 0; words >> one;) figures.push_back(one == 0 ? 0 : figure);
      if (key.starts_with(what)) keep(key, figures);
    }
  }
  [[nodiscard]] bool has_kept(std::string_view what) const {
    std::ifstream file(path());
    std::ostringstream text;
    text << file.rdbuf();
    return text.str().find(fmt::format(" {}.", what)) != std::string::npos;
  }

  std::unique_ptr<Platform> platform_ = make_real_platform();
  std::string folder_;
};

TEST_F(KnownFiguresTest, slots_and_pull_come_back_as_they_were_measured) {
  SlotCrossover slots;
  slots.take({{operator_of<AllReduce>, 4096, 1, 3}, {operator_of<AllReduce>, 16384, 4, 3.5}});
  slots.take({{operator_of<Scan>, 4096, 9, 3}});
  SlotCrossover again;
  KnownFigures::give(KnownFigures::figures_of(slots), again);
  for (const Operator op : all_operators())
    EXPECT_EQ(again.most_bytes(op), slots.most_bytes(op)) << to_string(op);
  EXPECT_EQ(again.measured().size(), 3U);
  EXPECT_EQ(again.times_of(operator_of<AllReduce>, 16384)->direct_us, 3.5);

  PullCrossover pull;
  const auto& [first, second, third, fourth] = PullCrossover::kSizes;
  pull.take(PullUse::to_one, {{first, 10, 9}, {second, 10, 30}, {third, 100, 20}});
  pull.take(PullUse::to_all, {{first, 10, 5}});  // there was no time for more
  pull.take(PullUse::rooted, {{first, 10, 20}, {second, 10, 20}, {third, 10, 9}, {fourth, 10, 5}});
  pull.take(PullUse::combined, {{first, 10, 30}, {second, 10, 5}, {third, 100, 50}});
  PullCrossover pull_again;
  KnownFigures::give(KnownFigures::figures_of(pull), 1 << 20, pull_again);
  EXPECT_EQ(pull_again.from_bytes(PullUse::to_one), third);
  EXPECT_EQ(pull_again.from_bytes(PullUse::to_all), first);
  EXPECT_EQ(pull_again.from_bytes(PullUse::rooted), third);
  EXPECT_EQ(pull_again.from_bytes(PullUse::broadcast), PullCrossover::kNever);
  EXPECT_EQ(pull_again.from_bytes(PullUse::combined), second);
  EXPECT_EQ(pull_again.measured(PullUse::to_one)[1].pulled_us, 30);
  EXPECT_EQ(pull_again.measured(PullUse::to_all).size(), 1U);
}

TEST_F(KnownFiguresTest, nothing_is_known_of_other_conditions_and_of_simulated_hosts) {
  LinkSpeed speed;
  speed.message_us = 7;
  keep(known().key("links"), std::array{speed.message_us, 1.0, 1.0, 1.0});
  ASSERT_TRUE(known().speed());
  EXPECT_EQ(known().speed()->message_us, 7);
  EXPECT_FALSE(known("there").speed());
  auto body = [](Communicator& comm) -> Task<> {
    const KnownFigures simulated(comm.engine().platform(), "here");
    simulated.keep(LinkSpeed());
    EXPECT_FALSE(simulated.speed());
    co_return;
  };
  test::run_ranks_in_world(2, body);
}

TEST_F(KnownFiguresTest, of_a_network_are_those_of_the_same_hosts_at_the_same_addresses) {
  Membership hosts;
  hosts.peers.resize(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    hosts.peers[rank].host_id.fill(static_cast<std::byte>(rank));
    hosts.peers[rank].data_address = Address::parse_numeric(fmt::format("10.0.0.{}:1234", rank + 1));
  }
  const auto known_of_hosts = [&] { return KnownFigures(*platform_, "here", &hosts); };
  const auto network = [&] { return known_of_hosts().network(); };
  const KnownFigures::OfNetwork figures = {{1, 2, 3, 4, 1}};
  keep(known_of_hosts().key("network"), figures);
  EXPECT_EQ(network(), figures);
  hosts.peers[1].data_address = Address::parse_numeric("10.0.0.2:4321");
  EXPECT_EQ(network(), figures) << "ports differ from job to job";
  hosts.peers[1].data_address = Address::parse_numeric("10.0.1.2:1234");
  EXPECT_EQ(network(), std::nullopt) << "another interface";
  hosts.peers[1].data_address = Address::parse_numeric("10.0.0.2:1234");
  hosts.peers[1].host_id.fill(std::byte{7});
  EXPECT_EQ(network(), std::nullopt) << "another host";
}

/// A busy host keeps nothing: then there is nothing to see here.
TEST_F(KnownFiguresTest, what_a_job_has_measured_the_next_one_knows) {
  CommunicatorOptions shm;
  shm.transport = "shm";
  shm.is_isolated = true;
  CommunicatorOptions tcp;
  tcp.transport = "tcp";
  auto nothing = [](Communicator& comm) -> Task<> { co_await comm.barrier(); };
  test::run_ranks(2, nothing, shm);
  test::run_ranks(2, nothing, tcp);
  if (!has_kept("slots") || !has_kept("links")) GTEST_SKIP() << "this host is busy";
  set_all("slots", 12345);
  set_all("links", 5432);
  auto knows_slots = [](Communicator& comm) -> Task<> {
    const std::vector<SlotTimes>& measured = comm.reach().slots.measured();
    EXPECT_FALSE(measured.empty());
    for (const SlotTimes& times : measured) EXPECT_EQ(times.slots_us, 12345);
    co_await comm.barrier();
  };
  auto knows_links = [](Communicator& comm) -> Task<> {
    EXPECT_EQ(comm.reach().model.speed().message_us, 5432);
    co_await comm.barrier();
  };
  test::run_ranks(2, knows_slots, shm);
  test::run_ranks(2, knows_links, tcp);

  auto measures = [](Communicator& comm) -> Task<> {
    for (const SlotTimes& times : comm.reach().slots.measured()) EXPECT_NE(times.slots_us, 12345);
    EXPECT_NE(comm.reach().model.speed().message_us, 5432);
    co_await comm.barrier();
  };
  test::run_ranks(3, measures, shm);  // other conditions
  test::run_ranks(3, measures, tcp);
  ASSERT_EQ(::setenv("COHORT_CACHE_REFRESH", "1", 1), 0);
  test::run_ranks(2, measures, shm);
  test::run_ranks(2, measures, tcp);
  ASSERT_EQ(::unsetenv("COHORT_CACHE_REFRESH"), 0);
}

/// Ranks that do not all know measure, and come to the same.
TEST_F(KnownFiguresTest, a_damaged_file_is_as_if_there_were_none) {
  std::ofstream(path()) << "cohort figures 1\n1 slots.1/x 1e99\n";
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<double> limits;
    for (const Operator op : all_operators())
      limits.push_back(static_cast<double>(comm.reach().slots.most_bytes(op)));
    std::vector<double> most(limits.size());
    co_await comm.all_reduce(limits, most, ReduceOp::max);
    EXPECT_EQ(most, limits);
  };
  test::run_ranks(3, body);
}

}  // namespace
}  // namespace cohort::known_figures_test
