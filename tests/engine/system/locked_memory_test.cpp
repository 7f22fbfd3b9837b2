// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/locked_memory.h>

#include <gtest/gtest.h>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace cohort::locked_memory_test {
namespace {

constexpr std::size_t kBytes = 123 << 10;

/// In a child with that limit, which `prepare` makes what it is.
bool finds(std::size_t expected, const std::function<bool()>& prepare) {
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    limit.rlim_cur = kBytes;
    const bool is_ready = ::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && prepare();
    ::_exit(is_ready && locked_memory_limit() == expected ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(LockedMemory, is_limited_for_whoever_has_no_leave_to_lock_more) {
  EXPECT_TRUE(finds(kBytes, [] { return ::geteuid() != 0 || ::setuid(65533) == 0; }));
}

TEST(LockedMemory, has_no_limit_where_none_is_set) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  if (limit.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "there is one here";
  EXPECT_EQ(locked_memory_limit(), kNoLimit);
}

}  // namespace
}  // namespace cohort::locked_memory_test
