// SPDX-License-Identifier: Apache-2.0
// Two jobs that somebody starts by hand at one address: real processes, which know of each other only what
// the address tells.
#include <cohort/cohort.h>
#include <cohort/engine/system/sanitizers.h>

#include <cohort/tests/support/joining.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace cohort::two_jobs_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr unsigned kOrdinaryUser = 65534;

/// A process that somebody starts by hand.
struct Start {
  Rank rank = 0;
  int job = 0;
  bool is_ordinary = false;  ///< runs as an ordinary user, though this process is root
};

struct Kind {
  const char* name;
  bool by_tcp;
  bool have_own_secrets;  ///< each job one of its own
};

CommunicatorOptions options_of(const Kind& kind, const std::string& address, const Start& start) {
  CommunicatorOptions options;
  options.join = std::move(test::world_of(2, address)[start.rank]);
  options.join.timeout = std::chrono::seconds(sanitizers::kThread ? 30 : sanitizers::kAddress ? 16 : 10);
  if (kind.by_tcp) options.join.secret = test::secret_of(kind.have_own_secrets ? 1 + start.job : 1);
  return options;
}

Task<> meet(Communicator& comm) {
  for (int i = 0; i < 3; ++i) co_await comm.barrier();
}

/// One rank of a job, in a process of its own.
class RankProcess {
 public:
  RankProcess(const Kind& kind, const std::string& address, const Start& start) : process_(::fork()) {
    if (process_ != 0) return;
    ::dup2(printed_.number(), STDERR_FILENO);
    if (start.is_ordinary && ::setuid(kOrdinaryUser) != 0) ::_exit(99);
    ::_exit(run(meet, options_of(kind, address, start)));
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      static_cast<void>(status());
    }
  }

  [[nodiscard]] int status() {
    int status = -1;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] std::string printed() const {
    std::string text(static_cast<std::size_t>(::lseek(printed_.number(), 0, SEEK_END)), '\0');
    const ssize_t count = ::pread(printed_.number(), text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
  }

 private:
  const Descriptor printed_ = Descriptor(::memfd_create("printed", MFD_CLOEXEC));
  pid_t process_;
};

std::string words_for(const Start& start) {
  return fmt::format("rank {} of job {}{}", start.rank, start.job,
                     start.is_ordinary ? " (ordinary user)" : "");
}

/// All of its processes, started one after the other.
class RunningScene {
 public:
  RunningScene(const Kind& kind, std::vector<Start> starts)
      : kind_(kind),
        starts_(std::move(starts)),
        address_(kind.by_tcp ? test::fresh_tcp_address() : test::fresh_unix_address()) {}

  [[nodiscard]] bool starts_next() {
    if (ranks_.size() == starts_.size()) return false;
    ranks_.emplace_back(kind_, address_, starts_[ranks_.size()]);
    return true;
  }

  /// At least one job runs, and who does not run is told of the other one, or that nobody is there.
  void expect_that_one_runs_and_the_others_are_told() {
    std::size_t running = 0;
    std::string story = fmt::format("{}:", kind_.name);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const int status = ranks_[i].status();
      running += status == 0 ? 1 : 0;
      story += fmt::format("\n  {} ended with {}: {}", words_for(starts_[i]), status, ranks_[i].printed());
      if (status == 0) continue;
      EXPECT_EQ(status, 1);
      EXPECT_THAT(ranks_[i].printed(),
                  AnyOf(HasSubstr("COHORT_NAME or a COHORT_ADDR"), HasSubstr("COHORT_NAME or COHORT_ADDR"),
                        HasSubstr("found nobody at"), HasSubstr("is missing: start it with this address"),
                        HasSubstr("or another job listens there"), HasSubstr("choose another address")))
          << story;
    }
    EXPECT_GE(running, 2U) << story;
  }

 private:
  const Kind kind_;
  const std::vector<Start> starts_;
  const std::string address_;
  std::deque<RankProcess> ranks_;
};

/// Every order in which two jobs of two ranks can be started, up to the jobs' names.
std::vector<std::vector<Start>> all_orders(bool is_first_ordinary, bool is_second_ordinary) {
  std::vector<std::vector<Start>> orders;
  std::vector<int> numbers = {0, 1, 2, 3};
  do {
    if (numbers[0] > 1) continue;  // the same with the other job first
    std::vector<Start> order;
    for (const int number : numbers) {
      const bool is_first = number < 2;
      order.push_back({.rank = static_cast<Rank>(number % 2),
                       .job = is_first ? 0 : 1,
                       .is_ordinary = is_first ? is_first_ordinary : is_second_ordinary});
    }
    orders.push_back(order);
  } while (std::ranges::next_permutation(numbers).found);
  return orders;
}

/// All that is hurried at once; of the others the first process of each, after a pause the second ones, and
/// so on.
void start_all(std::deque<RunningScene>& hurried, std::deque<RunningScene>& others) {
  constexpr auto kPause = std::chrono::milliseconds(500);
  const auto start_next = [](std::deque<RunningScene>& scenes) {
    bool has_started = false;
    for (RunningScene& scene : scenes) has_started |= scene.starts_next();
    return has_started;
  };
  while (start_next(hurried)) {
  }
  while (start_next(others)) std::this_thread::sleep_for(kPause);
}

struct Users {
  const char* name;
  std::size_t number;  ///< what starts in haste with an even one takes its time with an odd one
  bool is_first_ordinary;
  bool is_second_ordinary;
};

void PrintTo(const Users& users, std::ostream* out) { *out << users.name; }

class TwoJobs : public ::testing::TestWithParam<Users> {};
INSTANTIATE_TEST_SUITE_P(Users, TwoJobs,
                         ::testing::Values(Users{"own_user", 0, false, false},
                                           Users{"ordinary_user", 1, true, true},
                                           Users{"both", 2, false, true}),
                         [](const auto& users) { return users.param.name; });

TEST_P(TwoJobs, started_by_hand_at_one_address_run_or_are_told) {
  const Users users = GetParam();
  if ((users.is_first_ordinary || users.is_second_ordinary) && ::geteuid() != 0)
    GTEST_SKIP() << "only root can become another user";
  constexpr Kind kKinds[] = {{"at a Unix address", false, false},
                             {"by TCP, with one secret", true, false},
                             {"by TCP, each with its secret", true, true}};
  // Whoever is left alone waits for its whole patience, so all of them wait at once.
  std::deque<RunningScene> hurried;
  std::deque<RunningScene> others;
  std::size_t number = users.number;
  for (const Kind& kind : kKinds)
    for (const auto& starts : all_orders(users.is_first_ordinary, users.is_second_ordinary))
      (++number % 2 == 0 ? hurried : others).emplace_back(kind, starts);
  start_all(hurried, others);
  for (RunningScene& scene : hurried) scene.expect_that_one_runs_and_the_others_are_told();
  for (RunningScene& scene : others) scene.expect_that_one_runs_and_the_others_are_told();
}

}  // namespace
}  // namespace cohort::two_jobs_test
