// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/choose_driver.h>

#include <cohort/engine/engine.h>
#include <cohort/tests/support/forked_part.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace cohort::choose_driver_test {
namespace {

using ::testing::ExitedWithCode;

/// What Docker's profile does: system calls of io_uring fail with EPERM. For the rest of the process.
void forbid_uring() {
  std::array program = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SYS_io_uring_setup, 0, 2),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SYS_io_uring_register, 1, 0),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  const bool is_done = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                       ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
  if (!is_done) std::_Exit(99);
}

/// Timers and messages from other threads go through the driver.
Task<int> answer(Engine& engine) {
  const auto compute = [] { return 42; };
  co_await engine.sleep_for(std::chrono::milliseconds(1));
  co_return co_await engine.offload(compute);
}

/// In a process of its own: prints how the engine talks to the kernel.
template <class Prepare>
void run_engine(Prepare prepare) {
  prepare();
  Engine engine;
  if (engine.run(answer(engine)) != 42) std::_Exit(98);
  std::fputs(engine.driver().description().c_str(), stderr);
  std::_Exit(0);
}

TEST(ChooseDriver, takes_uring_where_it_may) {
  EXPECT_EXIT(run_engine([] { ::unsetenv("COHORT_IO"); }), ExitedWithCode(0), "^io_uring \\(");
}

TEST(ChooseDriver, takes_what_is_asked_for) {
  EXPECT_EXIT(run_engine([] { ::setenv("COHORT_IO", "epoll", 1); }), ExitedWithCode(0),
              "^epoll \\(by COHORT_IO\\)");
  EXPECT_EXIT(run_engine([] { ::setenv("COHORT_IO", "uring", 1); }), ExitedWithCode(0), "^io_uring \\(");
}

TEST(ChooseDriver, takes_epoll_where_uring_is_forbidden_and_says_so_once) {
  const auto forbid = [] {
    ::unsetenv("COHORT_IO");
    ::setenv("COHORT_DEBUG", "info", 1);
    forbid_uring();
    const Engine first;
  };
  EXPECT_EXIT(run_engine(forbid), ExitedWithCode(0),
              "^[^\n]*epoll in place of io_uring: io_uring is forbidden here \\(EPERM\\)[^\n]*\n"
              "([^\n]*\n)*epoll \\(io_uring is refused\\)$");
}

TEST(ChooseDriver, refuses_where_uring_is_asked_for_and_forbidden) {
  const auto fail = [] {
    ::setenv("COHORT_IO", "uring", 1);
    forbid_uring();
    const auto error = test::error_from([] { const auto driver = make_driver(); });
    std::fputs(error ? error->what() : "no error", stderr);
    std::_Exit(0);
  };
  EXPECT_EXIT(fail(), ExitedWithCode(0), "Unsupported: io_uring is forbidden here");
}

TEST(ChooseDriver, refuses_a_name_that_it_does_not_know) {
  const auto fail = [] {
    ::setenv("COHORT_IO", "kqueue", 1);
    const auto error = test::error_from([] { const auto driver = make_driver(); });
    std::fputs(error ? error->what() : "no error", stderr);
    std::_Exit(0);
  };
  EXPECT_EXIT(fail(), ExitedWithCode(0), "COHORT_IO is 'kqueue'; it may be uring or epoll");
}

/// A daemon may have closed them.
TEST(ChooseDriver, leaves_standard_descriptors_to_what_is_printed) {
  test::ForkedPart daemon("a daemon", [] {
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(number);
    const Engine engine;
    struct stat null {};
    ASSERT_EQ(::stat("/dev/null", &null), 0);
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      struct stat found {};
      ASSERT_EQ(::fstat(number, &found), 0) << number;
      EXPECT_EQ(found.st_rdev, null.st_rdev) << number;
    }
  });
  daemon.join();
}

}  // namespace
}  // namespace cohort::choose_driver_test
