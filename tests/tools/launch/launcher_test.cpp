// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/launcher.h>

#include <cohort/engine/system/descriptor_limit.h>
#include <cohort/tests/support/forked_part.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/process_support.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace cohort::launcher_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

struct Outcome {
  int status = -1;
  std::string output;
  std::string errors;
};

EngineOptions without_spinning() { return {.spin = Duration::zero()}; }

int run_launcher(const LaunchOptions& options) {
  Engine engine(without_spinning());
  return engine.run(launch(engine, options));
}

Outcome outcome_of(LaunchOptions options) {
  const test::Collector output;
  const test::Collector errors;
  options.output_descriptor = output.descriptor();
  options.errors_descriptor = errors.descriptor();
  const int status = run_launcher(options);
  return {status, output.text(), errors.text()};
}

/// With times that do not run out on a busy machine; tests of what happens then shorten them.
LaunchOptions script(unsigned ranks, std::string text) {
  return {.ranks = ranks,
          .command = {"/bin/sh", "-c", std::move(text)},
          .time_to_notice = 1min,
          .time_to_end = 1min};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// What each rank wrote, without the prefix; lines in its order.
std::map<std::string, std::vector<std::string>> by_rank(const std::string& text) {
  std::map<std::string, std::vector<std::string>> ranks;
  for (const std::string& line : lines_of(text)) {
    const std::size_t end = line.find("] ");
    EXPECT_TRUE(line.starts_with('[') && end != std::string::npos) << line;
    if (end != std::string::npos) ranks[line.substr(1, end - 1)].push_back(line.substr(end + 2));
  }
  return ranks;
}

/// Every test also looks whether the launcher left a process or a descriptor.
class LauncherTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(test::list_of_descriptors(), before_);
    EXPECT_FALSE(test::has_children());
  }

 private:
  const std::set<std::string> before_ = test::list_of_descriptors();
};

TEST_F(LauncherTest, each_rank_finds_its_place_in_the_environment) {
  LaunchOptions options = script(
      3,
      "echo $COHORT_RANK $COHORT_SIZE $COHORT_LOCAL_RANK $COHORT_LOCAL_SIZE $EXTRA; echo $COHORT_ADDR >&2");
  options.environment = {{"EXTRA", "more words"}};
  const Outcome outcome = outcome_of(options);
  EXPECT_EQ(outcome.status, 0);
  auto ranks = by_rank(outcome.output);
  EXPECT_EQ(ranks.size(), 3U);
  for (const char* rank : {"0", "1", "2"})
    EXPECT_EQ(ranks[rank], std::vector{std::string(rank) + " 3 " + rank + " 3 more words"});
  auto addresses = by_rank(outcome.errors);
  EXPECT_THAT(addresses["0"].at(0), ::testing::MatchesRegex("unix:cohort-[0-9]+-[0-9a-f]{16}"));
  EXPECT_EQ(addresses["0"], addresses["1"]);
  EXPECT_EQ(addresses["0"], addresses["2"]);
}

TEST_F(LauncherTest, the_secret_comes_by_descriptor_is_the_same_for_all_and_new_for_each_job) {
  const std::string print = "od -v -An -tx1 /proc/self/fd/$COHORT_SECRET_FD | tr -d ' \\n'; echo";
  const Outcome first = outcome_of(script(3, print));
  EXPECT_EQ(first.status, 0) << first.errors;
  auto ranks = by_rank(first.output);
  EXPECT_THAT(ranks["0"], ::testing::ElementsAre(::testing::MatchesRegex("[0-9a-f]{64}")));
  EXPECT_EQ(ranks["0"], ranks["1"]);
  EXPECT_EQ(ranks["0"], ranks["2"]);
  EXPECT_NE(by_rank(outcome_of(script(1, print)).output)["0"], ranks["0"]);
}

TEST_F(LauncherTest, the_secret_is_in_no_variable_and_no_argument_and_cannot_be_changed) {
  const Outcome outcome = outcome_of(script(1, R"(
    secret=$(od -v -An -tx1 /proc/self/fd/$COHORT_SECRET_FD | tr -d ' \n')
    cat /proc/self/environ /proc/self/cmdline /proc/$PPID/cmdline |
      od -v -An -tx1 | tr -d ' \n' | grep -c "$secret"
    env | grep -ci "$secret"
    (echo x 1<>/proc/self/fd/$COHORT_SECRET_FD) 2>/dev/null || echo sealed)"));
  EXPECT_EQ(outcome.output, "[0] 0\n[0] 0\n[0] sealed\n");
}

TEST_F(LauncherTest, output_goes_to_output_and_errors_to_errors) {
  const Outcome prefixed = outcome_of(script(1, "echo out; echo err >&2"));
  EXPECT_EQ(prefixed.output, "[0] out\n");
  EXPECT_EQ(prefixed.errors, "[0] err\n");
  LaunchOptions plain = script(1, "echo out; echo err >&2");
  plain.prefix_output = false;
  const Outcome outcome = outcome_of(plain);
  EXPECT_EQ(outcome.output, "out\n");
  EXPECT_EQ(outcome.errors, "err\n");
}

TEST_F(LauncherTest, sixty_four_ranks) {
  const Outcome outcome = outcome_of(script(64, "echo $COHORT_RANK"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const auto ranks = by_rank(outcome.output);
  EXPECT_EQ(ranks.size(), 64U);
  for (const auto& [rank, lines] : ranks) EXPECT_EQ(lines, std::vector{rank});
}

TEST_F(LauncherTest, the_first_failure_is_named_and_is_the_status_and_the_rest_is_ended) {
  LaunchOptions options =
      script(4, "if [ $COHORT_RANK = 2 ]; then echo last words >&2; exit 3; fi; sleep 100");
  options.time_to_notice = 1s;
  const Outcome outcome = outcome_of(options);
  EXPECT_EQ(outcome.status, 3);
  const auto lines = lines_of(outcome.errors);
  ASSERT_EQ(lines.size(), 3U) << outcome.errors;
  EXPECT_EQ(lines[0], "[2] last words");
  EXPECT_THAT(lines[1], ::testing::MatchesRegex("cohort: rank 2 \\(process [0-9]+\\) exited with status 3"));
  EXPECT_EQ(lines[2], "cohort: ending ranks 0, 1, 3, still running");
}

TEST_F(LauncherTest, a_rank_killed_by_a_signal_is_named_with_it) {
  const Outcome outcome =
      outcome_of(script(2, "[ $COHORT_RANK = 0 ] || { ulimit -c 0; kill -SEGV $$; }; exit 0"));
  EXPECT_EQ(outcome.status, 128 + SIGSEGV);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("cohort: rank 1 (process "),
                                    HasSubstr("was killed by SIGSEGV (Segm"), Not(HasSubstr("ending"))));
}

TEST_F(LauncherTest, ranks_that_notice_a_failure_get_the_time_to_say_so_themselves) {
  const Outcome outcome = outcome_of(script(3, R"(
    trap 'echo told to end; exit 9' TERM
    [ $COHORT_RANK = 0 ] && exit 4
    sleep 0.05; echo rank 0 died >&2; exit 5)"));
  EXPECT_EQ(outcome.status, 4);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("[1] rank 0 died\n"), HasSubstr("[2] rank 0 died\n"),
                    HasSubstr("cohort: then ranks 1, 2 exited with status 5\n"), Not(HasSubstr("ending"))));
}

TEST_F(LauncherTest, several_that_are_killed_after_the_first_are_told_of_in_the_plural) {
  const Outcome outcome = outcome_of(script(3, R"(
    trap '' TERM
    [ $COHORT_RANK = 0 ] && exit 4
    ulimit -c 0; sleep 0.05; kill -SEGV $$)"));
  EXPECT_EQ(outcome.status, 4);
  EXPECT_THAT(outcome.errors, HasSubstr("cohort: then ranks 1, 2 were killed by SIGSEGV (Segm"));
}

/// Rank 0 fails as soon as rank 1 has created the file that $READY names.
LaunchOptions failing_beside(const std::string& rank_1) {
  const std::string path = ::testing::TempDir() + fmt::format("launcher_test_{}", ::getpid());
  LaunchOptions options = script(
      2, "if [ $COHORT_RANK = 0 ]; then while [ ! -e $READY ]; do sleep 0.02; done; rm $READY; exit 1; fi; " +
             rank_1);
  options.environment = {{"READY", path}};
  options.time_to_notice = 0s;
  return options;
}

TEST_F(LauncherTest, who_ignores_being_told_to_end_is_killed) {
  LaunchOptions options = failing_beside("trap '' TERM; >$READY; while :; do sleep 0.05; done");
  options.time_to_end = 200ms;
  const Outcome outcome = outcome_of(options);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("cohort: killing rank 1, which did not end when told to\n"));
}

TEST_F(LauncherTest, a_stopped_rank_is_continued_so_that_it_can_end) {
  const Outcome outcome = outcome_of(failing_beside(
      "trap 'echo continued; exit 0' TERM; >$READY; kill -STOP $$; while :; do sleep 0.05; done"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "[1] continued\n");
  EXPECT_THAT(outcome.errors, Not(HasSubstr("killing")));
}

TEST_F(LauncherTest, the_timeout_ends_the_job_and_names_who_was_still_running) {
  LaunchOptions options = script(4, "[ $COHORT_RANK = 1 ] || exec sleep 100");
  options.timeout = 2s;
  const Outcome outcome = outcome_of(options);
  EXPECT_EQ(outcome.status, 124);
  EXPECT_EQ(outcome.errors,
            "cohort: the job is not finished after 2 s\ncohort: ending ranks 0, 2, 3, still running\n");
  options = script(2, "exit 0");
  options.timeout = 1h;
  EXPECT_EQ(outcome_of(options).status, 0);
}

TEST_F(LauncherTest, a_program_that_cannot_be_started_is_named) {
  const Outcome outcome = outcome_of({.ranks = 4, .command = {"no-such-program-anywhere", "argument"}});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_EQ(lines_of(outcome.errors).size(), 1U);
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("cohort: 'no-such-program-anywhere'"), HasSubstr("No such file")));
}

TEST_F(LauncherTest, options_that_mean_nothing_are_refused) {
  for (const LaunchOptions& options :
       {LaunchOptions{.ranks = 0, .command = {"true"}}, LaunchOptions{.ranks = 1}}) {
    const auto error = test::error_from([&] { outcome_of(options); });
    EXPECT_EQ(test::kind_of(error), "InvalidArgument");
  }
}

TEST_F(LauncherTest, what_a_rank_started_ends_with_the_job) {
  const Outcome outcome = outcome_of(script(2, "sleep 100 & echo $!"));
  EXPECT_EQ(outcome.status, 0);
  const auto ranks = by_rank(outcome.output);
  ASSERT_EQ(ranks.size(), 2U);
  for (const auto& [rank, lines] : ranks) EXPECT_TRUE(test::ends(std::stoi(lines.at(0))));
}

TEST_F(LauncherTest, who_left_the_group_and_keeps_the_output_is_not_waited_for) {
  const Outcome outcome = outcome_of(script(1, "setsid sleep 100 & echo $!; exec sleep 0.1"));
  EXPECT_EQ(outcome.status, 0);
  const int stray = std::stoi(by_rank(outcome.output)["0"].at(0));
  ::kill(stray, SIGKILL);
  EXPECT_TRUE(test::ends(stray));
}

TEST_F(LauncherTest, output_that_nobody_reads_any_more_ends_the_job) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  const test::Collector errors;
  LaunchOptions options = script(2, "while :; do echo more; done");
  options.output_descriptor = ends[1];
  options.errors_descriptor = errors.descriptor();
  EXPECT_EQ(run_launcher(options), 141);
  EXPECT_EQ(errors.text(), "");
  ::close(ends[1]);
}

TEST_F(LauncherTest, output_that_cannot_be_written_is_told_once_and_by_the_status_and_the_job_goes_on) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  const test::Collector errors;
  LaunchOptions options = script(2, "echo one; sleep 0.05; echo two; exit 0");
  options.output_descriptor = full;
  options.errors_descriptor = errors.descriptor();
  EXPECT_EQ(run_launcher(options), 1);
  EXPECT_THAT(errors.text(), HasSubstr("No space left on device"));
  EXPECT_EQ(lines_of(errors.text()).size(), 1U);
  ::close(full);
}

TEST_F(LauncherTest, a_limit_on_open_files_that_is_too_low_is_told_with_one_that_is_not) {
  const auto limited = [] {
    const std::size_t now = descriptor_limit::count_open() + 12;
    const ::rlimit limit{now, now};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    try {
      (void)run_launcher(script(8, "exit 0"));
      ADD_FAILURE() << "8 ranks took fewer than " << now;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::ResourceLimit);
      std::size_t enough = 0;
      const std::string text = error.what();
      const std::size_t at = text.find("for 8 ranks the launcher may open up to ");
      ASSERT_NE(at, std::string::npos) << text;
      std::sscanf(text.c_str() + at, "for 8 ranks the launcher may open up to %zu files", &enough);
      EXPECT_GT(enough, now) << text;
      EXPECT_THAT(text, HasSubstr(fmt::format("(ulimit -n, {} now)", now)));
    }
  };
  test::ForkedPart part("a launcher that may open few files", limited);
  part.join();
}

TEST_F(LauncherTest, a_cancelled_launch_leaves_nothing) {
  Engine engine(without_spinning());
  auto body = [&]() -> Task<std::optional<Error>> {
    co_return co_await test::error_of(with_deadline(50ms, launch(engine, script(3, "sleep 100"))));
  };
  const auto error = engine.run(body());
  EXPECT_EQ(test::kind_of(error), "DeadlineExceeded");
}

/// The launcher in a process of its own, which tests can signal. Its output comes through a pipe.
class LauncherProcess {
 public:
  explicit LauncherProcess(LaunchOptions options) {
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    options.output_descriptor = options.errors_descriptor = ends[1];
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      ::signal(SIGINT, SIG_DFL);  // shells start what runs in the background without it
      ::_exit(run_launcher(options));
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;
  ~LauncherProcess() {
    ::close(output_);
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      status();
    }
  }

  std::string read_until(const std::string& text) { return test::read_until(output_, text); }
  std::string rest() { return test::read_to_end(output_); }
  void signal(int number) { ::kill(process_, number); }
  /// As a shell would report it.
  int status() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t process_ = -1;
  int output_ = -1;
};

/// Ranks that wait for a file which the test makes when the launcher has told of a failure.
class KeepGoingTest : public LauncherTest {
 protected:
  static std::string path(const char* name) {
    return ::testing::TempDir() + fmt::format("launcher_test_{}_{}", name, ::getpid());
  }
  static void create(const std::string& path) { ::close(::open(path.c_str(), O_CREAT | O_WRONLY, 0600)); }
  void SetUp() override { unlink_files(); }
  void TearDown() override {
    unlink_files();
    LauncherTest::TearDown();
  }

  /// Rank 0 is killed, then rank 2 ends with status 3, then ranks 1 and 3 do what is left.
  static LaunchOptions losing_two(const std::string& rest) {
    LaunchOptions options = script(4, R"(
      wait_for() { while [ ! -e "$1" ]; do sleep 0.02; done; }
      case $COHORT_RANK in
        0) ulimit -c 0; kill -KILL $$;;
        2) wait_for $FIRST; exit 3;;
        *) printf 'before '; wait_for $SECOND;;
      esac; )" + rest);
    options.environment = {{"FIRST", path("first")}, {"SECOND", path("second")}};
    options.time_to_notice = options.time_to_end = 0s;
    options.keeps_going = true;
    return options;
  }

  /// What is told after both failures were.
  static std::string lose_two(LauncherProcess& launcher) {
    EXPECT_THAT(launcher.read_until("ranks 1-3 still running\n"),
                HasSubstr("was killed by SIGKILL (Killed); "));
    create(path("first"));
    EXPECT_THAT(launcher.read_until("ranks 1, 3 still running\n"), HasSubstr("exited with status 3; "));
    create(path("second"));
    return launcher.rest();
  }

 private:
  static void unlink_files() {
    for (const char* name : {"first", "second"}) ::unlink(path(name).c_str());
  }
};

TEST_F(KeepGoingTest, nobody_is_ended_no_output_is_lost_and_who_is_left_makes_the_job_succeed) {
  LauncherProcess launcher(losing_two("echo after"));
  auto ranks = by_rank(lose_two(launcher));
  EXPECT_EQ(launcher.status(), 0);
  EXPECT_EQ(ranks["1"], std::vector<std::string>{"before after"});
  EXPECT_EQ(ranks["3"], std::vector<std::string>{"before after"});
}

TEST_F(KeepGoingTest, a_job_fails_as_its_first_rank_if_none_succeeds) {
  LauncherProcess launcher(losing_two("exit 5"));
  const std::string rest = lose_two(launcher);
  EXPECT_EQ(launcher.status(), 128 + SIGKILL);
  EXPECT_THAT(rest, AllOf(HasSubstr("exited with status 5"), Not(HasSubstr("cohort: then"))));
}

TEST_F(KeepGoingTest, the_timeout_ends_it_all_the_same) {
  LaunchOptions options =
      script(3, "[ $COHORT_RANK != 1 ] || exit 4; [ $COHORT_RANK = 2 ] || exec sleep 100");
  options.keeps_going = true;
  options.timeout = 2s;
  const Outcome outcome = outcome_of(options);
  EXPECT_EQ(outcome.status, 124);
  EXPECT_THAT(outcome.errors, HasSubstr("cohort: ending rank 0, still running\n"));
}

TEST_F(LauncherTest, lines_of_all_ranks_stay_whole_and_in_order_however_slow_the_reader) {
  LauncherProcess launcher(script(8, R"(
    i=0
    while [ $i -lt 500 ]; do
      echo "line $i of rank $COHORT_RANK, long enough to be cut somewhere"
      i=$((i+1))
    done
    printf unfinished)"));
  const auto ranks = by_rank(launcher.rest());
  EXPECT_EQ(launcher.status(), 0);
  ASSERT_EQ(ranks.size(), 8U);
  for (const auto& [rank, lines] : ranks) {
    ASSERT_EQ(lines.size(), 501U);
    for (std::size_t i = 0; i < 500; ++i)
      ASSERT_EQ(lines[i], fmt::format("line {} of rank {}, long enough to be cut somewhere", i, rank));
    EXPECT_EQ(lines[500], "unfinished");
  }
}

TEST_F(LauncherTest, a_signal_to_the_launcher_reaches_every_rank_and_ends_the_job) {
  const std::pair<int, const char*> cases[] = {{SIGINT, "INT"}, {SIGTERM, "TERM"}, {SIGHUP, "HUP"}};
  for (const auto& [number, name] : cases) {
    LauncherProcess launcher(script(
        2, std::string("trap 'echo told; exit 0' ") + name + "; echo ready; while :; do sleep 0.02; done"));
    launcher.read_until("ready\n");
    launcher.read_until("ready\n");
    launcher.signal(number);
    const std::string rest = launcher.rest();
    EXPECT_EQ(launcher.status(), 128 + number);
    EXPECT_THAT(rest, AllOf(HasSubstr("[0] told\n"), HasSubstr("[1] told\n"),
                            HasSubstr(std::string("cohort: SIG") + name + ": ending ranks 0, 1\n")));
  }
}

TEST_F(LauncherTest, ranks_that_ignore_an_interrupt_are_killed) {
  LaunchOptions options = script(2, "trap '' INT TERM; echo ready; while :; do sleep 0.02; done");
  options.time_to_end = 400ms;
  LauncherProcess launcher(options);
  launcher.read_until("ready\n");
  launcher.read_until("ready\n");
  launcher.signal(SIGINT);
  EXPECT_THAT(launcher.rest(), HasSubstr("cohort: killing ranks 0, 1, which did not end when told to\n"));
  EXPECT_EQ(launcher.status(), 130);
}

TEST_F(LauncherTest, an_interrupt_ends_a_job_whose_output_nobody_reads) {
  LaunchOptions options = script(2, "trap '' INT; echo ready; while :; do echo more and more; done");
  options.time_to_end = 400ms;
  LauncherProcess launcher(options);
  launcher.read_until("ready\n");
  launcher.signal(SIGINT);
  EXPECT_EQ(launcher.status(), 130);
}

TEST_F(LauncherTest, a_killed_launcher_leaves_no_process) {
  LauncherProcess launcher(script(2, "sleep 100 & echo $$ $!; wait"));
  const auto ranks = by_rank(launcher.read_until("\n") + launcher.read_until("\n"));
  ASSERT_EQ(ranks.size(), 2U);
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.status(), 137);
  for (const auto& [rank, lines] : ranks) {
    std::istringstream numbers(lines.at(0));
    for (int process = 0; numbers >> process;)
      EXPECT_TRUE(test::ends(process)) << process << " of rank " << rank;
  }
}

}  // namespace
}  // namespace cohort::launcher_test
