// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/run.h>

#include <cohort/engine/system/sanitizers.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <ostream>
#include <set>
#include <thread>
#include <vector>

namespace cohort::run_threads_test {
namespace {

/// Every algorithm of an operator must work whichever ranks share an engine.
Task<> exchange(Communicator& comm, std::size_t count) {
  std::vector<float> data(count, static_cast<float>(comm.rank()));
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::fill(data.begin(), data.end(), static_cast<float>(comm.rank()));
    co_await comm.all_reduce(std::span(data), ReduceOp::sum);
    const float expected = static_cast<float>(comm.size() * (comm.size() - 1)) / 2;
    EXPECT_EQ(std::count(data.begin(), data.end(), expected), data.size());
    co_await comm.barrier();
  }
}

TEST(Run, a_place_that_cannot_be_is_not_told_as_if_it_were_rank_0s) {
  ::setenv("COHORT_RANK", "5", 1);
  ::setenv("COHORT_SIZE", "2", 1);
  const auto nothing = [](Communicator&) -> Task<> { co_return; };
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(nothing), 1);
  const std::string printed = testing::internal::GetCapturedStderr();
  ::unsetenv("COHORT_RANK");
  ::unsetenv("COHORT_SIZE");
  EXPECT_NE(printed.find("COHORT_RANK=5 is not below COHORT_SIZE=2"), std::string::npos) << printed;
  EXPECT_EQ(printed.find("rank 0"), std::string::npos) << printed;
}

TEST(Run, threads_are_a_job_of_their_own_whatever_the_environment_says_of_joining) {
  ::setenv("COHORT_RANK", "not a number", 1);
  const auto nothing = [](Communicator&) -> Task<> { co_return; };
  EXPECT_EQ(run_threads(2, nothing), 0);
  ::unsetenv("COHORT_RANK");
}

struct Sharing {
  Rank ranks;
  unsigned threads;
  const char* transport;
};

void PrintTo(const Sharing& sharing, std::ostream* out) {
  *out << sharing.ranks << " ranks on " << sharing.threads << " threads over " << sharing.transport;
}

class RunThreadsTest : public testing::TestWithParam<Sharing> {};

TEST_P(RunThreadsTest, ranks_that_share_engines_exchange_small_and_large_data) {
  const auto [ranks, threads, transport] = GetParam();
  for (const std::size_t count : {1UL, 1000UL, 300'000UL}) {
    const auto body = [count](Communicator& comm) -> Task<> { return exchange(comm, count); };
    CommunicatorOptions options;
    options.transport = transport;
    EXPECT_EQ(run_threads(ranks, body, std::move(options), threads), 0) << count;
  }
}

TEST_P(RunThreadsTest, as_many_threads_run_as_were_asked_for) {
  const auto [ranks, threads, transport] = GetParam();
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto body = [&](Communicator& comm) -> Task<> {
    co_await comm.barrier();
    const std::scoped_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
  };
  EXPECT_EQ(run_threads(ranks, body, threads), 0);
  EXPECT_EQ(seen.size(), threads == 0 ? ranks : std::min(ranks, threads));
}

TEST_P(RunThreadsTest, a_rank_that_throws_fails_the_job_and_not_its_neighbours_engine) {
  const auto [ranks, threads, transport] = GetParam();
  std::atomic<Rank> told = 0;
  const auto body = [&](Communicator& comm) -> Task<> {
    if (comm.rank() == 1) throw std::runtime_error("planted");
    try {
      co_await comm.barrier();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::PeerAborted) ++told;
    }
  };
  EXPECT_EQ(run_threads(ranks, body, threads), 1);
  EXPECT_EQ(told, ranks - 1);
}

INSTANTIATE_TEST_SUITE_P(, RunThreadsTest,
                         testing::Values(Sharing{4, 0, "shm"}, Sharing{4, 1, "shm"}, Sharing{5, 2, "shm"},
                                         Sharing{2, 7, "shm"}, Sharing{5, 2, "tcp"}, Sharing{4, 1, "tcp"}),
                         [](const auto& param) {
                           return fmt::format("{}_ranks_on_{}_threads_over_{}", param.param.ranks,
                                              param.param.threads, param.param.transport);
                         });

TEST(RunThreadsEnvironmentTest, the_collectives_settings_hold_for_threads) {
  setenv("COHORT_TRANSPORT", "tcp", 1);
  std::atomic<bool> is_tcp = true;
  const auto body = [&](Communicator& comm) -> Task<> {
    if (comm.transport() != "tcp") is_tcp = false;
    co_return;
  };
  EXPECT_EQ(run_threads(2, body), 0);
  EXPECT_TRUE(is_tcp);
  setenv("COHORT_TRANSPORT", "pigeon", 1);
  EXPECT_EQ(run_threads(2, body), 1);
  unsetenv("COHORT_TRANSPORT");
}

/// Address space for a few stacks.
void limit_address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (std::size_t{40} << 20);
  const rlimit limit{bytes, bytes};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(RunThreads, without_threads_for_all_ranks_none_begins) {
  if (sanitizers::kAddress || sanitizers::kThread)
    GTEST_SKIP() << "sanitizers need address space of their own";
  const auto begin = [](Communicator&) -> Task<> {
    ADD_FAILURE() << "a rank has begun";
    co_return;
  };
  const auto run_all = [&] {
    limit_address_space();
    std::_Exit(run_threads(64, begin));
  };
  EXPECT_EXIT(run_all(), testing::ExitedWithCode(1), "thread .* of 64 cannot be started: .*ulimit -u");
}

Task<> meet(Communicator& comm) { co_await comm.barrier(); }

/// Ends with what run_threads() returns where at most so many files may be open.
[[noreturn]] void run_with_descriptors(Rank ranks, rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::_Exit(99);
  std::_Exit(run_threads(ranks, meet));
}

TEST(RunThreads, more_descriptors_than_the_soft_limit_are_asked_for_before_the_threads_start) {
  EXPECT_EXIT(run_with_descriptors(24, 64, 4096), testing::ExitedWithCode(0), "");
}

TEST(RunThreads, without_descriptors_for_all_ranks_none_begins_and_the_limit_is_told) {
  const auto begin = [](Communicator&) -> Task<> {
    ADD_FAILURE() << "a rank has begun";
    co_return;
  };
  const auto run_all = [&] {
    const rlimit limit{64, 64};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::_Exit(99);
    std::_Exit(run_threads(24, begin));
  };
  EXPECT_EXIT(run_all(), testing::ExitedWithCode(1),
              "^cohort: ResourceLimit: having 24 ranks as threads of one process takes [0-9]+ more "
              "descriptors, but this process has [0-9]+ open and may have 64: raise the hard limit on open "
              "files to [0-9]+ or more");
}

}  // namespace
}  // namespace cohort::run_threads_test
