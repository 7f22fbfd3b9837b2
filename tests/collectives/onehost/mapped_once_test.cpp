// SPDX-License-Identifier: Apache-2.0
// Real processes: what joining maps and touches of a host's memory, which grows hardly with its ranks.
#include <cohort/cohort.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/ranks.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace cohort::mapped_once_test {
namespace {

constexpr Rank kFew = 12;  ///< on one core too many for anything to be measured
constexpr Rank kMany = 48;
constexpr int kMappedAgain = 201;
constexpr int kOtherError = 202;

/// What this process has of shared memory segments.
struct Mapped {
  int mappings = 0;
  int pages = 0;  ///< that it has touched, or the kernel has given it beside those

  static Mapped now() {
    Mapped mapped;
    bool is_of_segment = false;
    std::ifstream file("/proc/self/smaps");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string first;
      std::string second;
      words >> first >> second;
      const bool is_head = !first.empty() && first.back() != ':';
      if (is_head) is_of_segment = line.find("/memfd:cohort") != std::string::npos;
      if (is_head && is_of_segment) ++mapped.mappings;
      if (first == "Rss:" && is_of_segment) mapped.pages += std::stoi(second) / 4;
    }
    return mapped;
  }
};

/// On one core, lest more ranks than that measure together, which touches what is measured.
void stay_on_one_core() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  std::size_t core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  EXPECT_EQ(::sched_setaffinity(0, sizeof cores, &cores), 0);
}

/// Joins and meets all others; its exit status is how many pages that took.
int join_and_count(Rank rank, Rank ranks, const std::string& address) {
  stay_on_one_core();
  int status = kOtherError;
  const RankFunction count = [&status](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const Mapped mapped = Mapped::now();
    status = mapped.mappings == 1 ? std::min(mapped.pages, kMappedAgain - 1) : kMappedAgain;
    co_await comm.barrier();
  };
  Engine engine;
  CommunicatorOptions options;
  options.join.rank = rank;
  options.join.size = ranks;
  options.join.address = address;
  options.transport = "shm";
  engine.run(run_rank(engine, std::move(options), count));
  return status;
}

/// The most pages of one rank.
int pages_of(Rank ranks) {
  const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
  test::MortalRanks processes;
  processes.start(ranks, [&](Rank rank, int) { return join_and_count(rank, ranks, address); });
  int most = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const int pages = processes.status_of(rank);
    EXPECT_NE(pages, kMappedAgain) << "rank " << rank << " of " << ranks << " maps more than one segment";
    EXPECT_TRUE(pages > 0 && pages <= kMappedAgain) << "rank " << rank << " ended with " << pages;
    most = std::max(most, pages);
  }
  return most;
}

TEST(HostMemory, is_mapped_once_by_each_rank_and_touched_little_at_joining) {
  const int few = pages_of(kFew);
  const int many = pages_of(kMany);
  EXPECT_LT(many, kMappedAgain - 1);
  EXPECT_LE(many - few, static_cast<int>(kMany - kFew) / 2)
      << few << " pages of " << kFew << " ranks, " << many << " of " << kMany;
}

}  // namespace
}  // namespace cohort::mapped_once_test
