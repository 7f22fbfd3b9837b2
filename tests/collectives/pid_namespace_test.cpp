// SPDX-License-Identifier: Apache-2.0
// Ranks of one host in different PID namespaces, as containers of one pod are: what one calls its number
// means somebody else, or nobody, to the other.
#include <cohort/cohort.h>
#include <cohort/net/auth/identity.h>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

namespace cohort::pid_namespace_test {
namespace {

constexpr int kNotAllowed = 60;
constexpr int kSurvivedPeerDied = 40;  // + culprit
constexpr int kWrongResult = 50;
constexpr int kOtherError = 51;
constexpr Rank kRanks = 2;

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

pid_t start(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

/// Runs `body` as the first process of a PID namespace of its own; everything in it dies with that.
pid_t start_in_namespace(const std::function<int()>& body) {
  return start([&] {
    if (::unshare(CLONE_NEWPID) != 0) return kNotAllowed;
    return status_of(start([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      return body();
    }));
  });
}

class PidNamespace : public testing::Test {
 protected:
  void SetUp() override {
    if (status_of(start_in_namespace([] { return 0; })) == kNotAllowed)
      GTEST_SKIP() << "this user may not make PID namespaces";
  }
};

CommunicatorOptions options_of(Rank rank, const std::string& address) {
  CommunicatorOptions options;
  options.join.rank = rank;
  options.join.size = kRanks;
  options.join.address = address;
  options.join.timeout = std::chrono::seconds(20);
  options.timeout = std::chrono::seconds(10);
  return options;
}

std::string fresh_address() { return fmt::format("unix:cohort-test-{:016x}", random_incarnation()); }

Task<int> sum_small_and_large(Engine& engine, CommunicatorOptions options) {
  Communicator comm = co_await Communicator::join(engine, std::move(options));
  int status = 0;
  for (const std::size_t count : {3, 200'000}) {
    std::vector<float> data(count, static_cast<float>(comm.rank() + 1));
    co_await comm.all_reduce(std::span<float>(data), ReduceOp::sum);
    for (const float value : data)
      if (value != 3.0F) status = kWrongResult;
  }
  co_await comm.close();
  co_return status;
}

int run_rank(const std::function<Task<int>(Engine&)>& body) {
  try {
    Engine engine;
    return engine.run(body(engine));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::PeerDied)
      return kSurvivedPeerDied + static_cast<int>(error.culprit().value_or(9));
    fmt::print(stderr, "{}\n", error.what());
    return kOtherError;
  }
}

TEST_F(PidNamespace, ranks_with_the_same_number_are_not_taken_for_one_process) {
  const std::string address = fresh_address();
  std::vector<pid_t> ranks;
  for (Rank rank = 0; rank < kRanks; ++rank)
    ranks.push_back(start_in_namespace([&] {
      return run_rank([&](Engine& engine) { return sum_small_and_large(engine, options_of(rank, address)); });
    }));
  for (const pid_t rank : ranks) EXPECT_EQ(status_of(rank), 0);
}

Task<int> wait_for_ever(Engine& engine, CommunicatorOptions options) {
  Communicator comm = co_await Communicator::join(engine, std::move(options));
  std::exception_ptr failure;
  try {
    for (;;) co_await comm.barrier();
  } catch (...) {
    failure = std::current_exception();
  }
  co_await comm.close();
  std::rethrow_exception(failure);
}

/// Joins, leaves its sockets to a child, and is killed.
Task<int> die_and_leave_sockets_open(Engine& engine, CommunicatorOptions options) {
  const Communicator comm = co_await Communicator::join(engine, std::move(options));
  if (::fork() == 0)
    for (;;) ::pause();
  ::raise(SIGKILL);
  co_return 0;
}

TEST_F(PidNamespace, a_death_in_another_one_is_noticed_although_the_sockets_stay_open) {
  const std::string address = fresh_address();
  const pid_t inside = start_in_namespace([&] {
    const pid_t victim = start([&] {
      return run_rank(
          [&](Engine& engine) { return die_and_leave_sockets_open(engine, options_of(1, address)); });
    });
    static_cast<void>(status_of(victim));
    for (;;) ::pause();
    return 0;
  });
  const pid_t survivor = start([&] {
    return run_rank([&](Engine& engine) { return wait_for_ever(engine, options_of(0, address)); });
  });
  EXPECT_EQ(status_of(survivor), kSurvivedPeerDied + 1);
  ::kill(inside, SIGKILL);
  static_cast<void>(status_of(inside));
}

}  // namespace
}  // namespace cohort::pid_namespace_test
