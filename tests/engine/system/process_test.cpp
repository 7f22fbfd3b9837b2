// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/process.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/system/process_guard.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/process_support.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <optional>
#include <string>

namespace cohort::process_test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// An engine, and at the end of the test a look at what is left.
class ProcessTest : public ::testing::Test {
 protected:
  void TearDown() override {
    engine_.reset();
    EXPECT_EQ(test::list_of_descriptors(), before_);
    EXPECT_FALSE(test::has_children());
  }

  static SpawnOptions shell(std::string script) {
    return {.command = {"/bin/sh", "-c", std::move(script)}, .has_output_pipes = true};
  }
  ChildProcess spawn(const SpawnOptions& options) { return ChildProcess::spawn(engine(), options); }
  ExitStatus end_of(ChildProcess& child) { return engine().run(child.wait()); }

  std::string all_of(PipeReader pipe) {
    auto read = [&]() -> Task<std::string> {
      std::string text;
      for (;;) {
        co_await pipe.until_readable();
        const auto count = pipe.try_read(std::as_writable_bytes(std::span(bytes_)));
        if (count == 0U) co_return text;
        if (count) text.append(bytes_.data(), *count);
      }
    };
    return engine().run(read());
  }
  /// The one number that a script prints first.
  int number_from(PipeReader pipe) {
    engine().run(pipe.until_readable());
    const auto count = pipe.try_read(std::as_writable_bytes(std::span(bytes_)));
    return std::stoi(std::string(bytes_.data(), count.value_or(0)));
  }
  std::string output_of(const SpawnOptions& options) {
    ChildProcess child = spawn(options);
    return all_of(child.take_output());
  }
  std::string refusal_of(const std::vector<std::string>& command, ErrorKind kind) {
    const auto error = test::error_from([&] { spawn({.command = command}); });
    EXPECT_EQ(test::kind_of(error), to_string(kind));
    return error ? error->what() : "";
  }
  Engine& engine() {
    if (!engine_) engine_.emplace(EngineOptions{});
    return *engine_;
  }

 private:
  std::set<std::string> before_ = test::list_of_descriptors();
  std::optional<Engine> engine_;
  std::array<char, 4096> bytes_{};
};

TEST_F(ProcessTest, exit_status_and_signal_are_told_apart) {
  ChildProcess good = spawn(shell("exit 0"));
  ChildProcess bad = spawn(shell("exit 3"));
  ChildProcess killed = spawn(shell("kill -9 $$"));
  EXPECT_EQ(end_of(good), ExitStatus());
  EXPECT_EQ(end_of(bad), ExitStatus{.code = 3});
  EXPECT_EQ(end_of(killed), ExitStatus{.signal = SIGKILL});
  EXPECT_TRUE(end_of(good).is_success());
  EXPECT_EQ(end_of(bad).shell_status(), 3);
  EXPECT_EQ(end_of(bad).describe(), "exited with status 3");
  EXPECT_EQ(end_of(killed).shell_status(), 137);
  EXPECT_EQ(end_of(killed).describe(), "was killed by SIGKILL (Killed)");
  EXPECT_EQ(end_of(killed).describe(2), "were killed by SIGKILL (Killed)");
}

TEST_F(ProcessTest, output_and_errors_arrive_apart_and_to_the_end) {
  ChildProcess child = spawn(shell("echo out; echo err >&2; printf 'no newline'"));
  EXPECT_EQ(all_of(child.take_output()), "out\nno newline");
  EXPECT_EQ(all_of(child.take_errors()), "err\n");
}

TEST_F(ProcessTest, environment_is_added_to_and_replaced) {
  ::setenv("COHORT_TEST_KEPT", "kept", 1);
  ::setenv("COHORT_TEST_REPLACED", "old", 1);
  SpawnOptions options =
      shell("echo $COHORT_TEST_KEPT $COHORT_TEST_REPLACED $COHORT_TEST_NEW; env | grep -c COHORT_TEST_");
  options.environment = {{"COHORT_TEST_REPLACED", "new"}, {"COHORT_TEST_NEW", "a b=c"}};
  EXPECT_EQ(output_of(options), "kept new a b=c\n3\n");
  ::unsetenv("COHORT_TEST_KEPT");
  ::unsetenv("COHORT_TEST_REPLACED");
}

TEST_F(ProcessTest, only_the_descriptors_named_are_inherited) {
  const Descriptor given(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 700));
  const Descriptor kept(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 800));
  SpawnOptions options = shell("exec ls /proc/self/fd");
  const std::string without = output_of(options);
  options.inherited = {given.number()};
  const std::string with = output_of(options);
  const std::string number = std::to_string(given.number()) + "\n";
  EXPECT_THAT(without, ::testing::Not(HasSubstr(number)));
  EXPECT_THAT(with, HasSubstr(number));
  EXPECT_EQ(with.size(), without.size() + number.size());
}

TEST_F(ProcessTest, standard_input_is_empty) { EXPECT_EQ(output_of(shell("cat; echo end")), "end\n"); }

TEST_F(ProcessTest, a_program_starts_with_no_signal_blocked) {
  const Signals signals(engine(), {ProcessSignal::terminate, ProcessSignal::interrupt});
  // Shells would clear the mask themselves.
  const SpawnOptions look{.command = {"grep", "SigBlk", "/proc/self/status"}, .has_output_pipes = true};
  EXPECT_THAT(output_of(look), HasSubstr("0000000000000000"));
  ChildProcess child = spawn({.command = {"sleep", "100"}});
  child.signal(ProcessSignal::terminate);
  EXPECT_EQ(end_of(child), ExitStatus{.signal = SIGTERM});
}

TEST_F(ProcessTest, a_program_that_cannot_run_is_named_with_the_reason) {
  EXPECT_THAT(refusal_of({"no-such-program-anywhere", "x"}, ErrorKind::InvalidArgument),
              HasSubstr("'no-such-program-anywhere' cannot be started: No such file or directory"));
  EXPECT_THAT(refusal_of({"no-such-program-anywhere"}, ErrorKind::InvalidArgument), HasSubstr("in PATH"));
  EXPECT_THAT(refusal_of({"/etc/passwd"}, ErrorKind::InvalidArgument), HasSubstr("Permission denied"));
  EXPECT_THAT(refusal_of({"/etc"}, ErrorKind::InvalidArgument), HasSubstr("'/etc'"));
}

TEST_F(ProcessTest, a_script_whose_interpreter_is_missing_says_so) {
  const int script = ::memfd_create("script", 0);
  const std::string text = "#!/no/such/interpreter\n";
  ASSERT_EQ(::write(script, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  // Open for writing it could not be executed: by a second, read-only descriptor.
  const std::string path = "/proc/self/fd/" + std::to_string(script);
  const int readable = ::open(path.c_str(), O_RDONLY);
  ::close(script);
  const std::string program = "/proc/self/fd/" + std::to_string(readable);
  EXPECT_THAT(refusal_of({program}, ErrorKind::InvalidArgument), HasSubstr("interpreter"));
  ::close(readable);
}

TEST_F(ProcessTest, signals_reach_the_whole_group) {
  // No trap: a shell runs those when it likes. The number is known once both are there to be ended.
  ChildProcess child = spawn(shell("sleep 100 & echo $!; wait"));
  const int grandchild = number_from(child.take_output());
  child.signal(ProcessSignal::terminate);
  EXPECT_EQ(end_of(child), ExitStatus{.signal = SIGTERM});
  EXPECT_TRUE(test::ends(grandchild));
}

TEST_F(ProcessTest, destroying_kills_the_program_and_what_it_started) {
  int grandchild = 0;
  {
    ChildProcess child = spawn(shell("sleep 100 & echo $!; wait"));
    grandchild = number_from(child.take_output());
  }
  EXPECT_TRUE(test::ends(grandchild));
}

TEST_F(ProcessTest, waiting_obeys_a_deadline) {
  ChildProcess child = spawn(shell("sleep 100"));
  auto impatient = [&]() -> Task<std::optional<Error>> {
    auto wait = [&]() -> Task<> { co_await child.wait(); };
    co_return co_await test::error_of(with_deadline(10ms, wait()));
  };
  const auto error = engine().run(impatient());
  EXPECT_EQ(test::kind_of(error), "DeadlineExceeded");
}

TEST_F(ProcessTest, the_end_of_a_process_that_is_no_child_is_noticed) {
  ChildProcess child = spawn(shell("sleep 100 & echo $!; wait"));
  const int grandchild = number_from(child.take_output());
  ProcessWatch watch(engine(), static_cast<std::uint32_t>(grandchild));
  EXPECT_FALSE(watch.has_ended());
  ::kill(grandchild, SIGKILL);
  engine().run(watch.until_exit());
  EXPECT_TRUE(watch.has_ended());
}

TEST_F(ProcessTest, watching_a_process_that_is_gone_is_an_error) {
  std::uint32_t gone = 0;
  {
    ChildProcess child = spawn(shell("exit 0"));
    gone = child.id();
  }
  const auto error = test::error_from([&] { ProcessWatch(engine(), gone); });
  EXPECT_EQ(test::kind_of(error), "SystemError");
  const auto zero = test::error_from([&] { ProcessWatch(engine(), 0); });
  EXPECT_EQ(test::kind_of(zero), "SystemError");
}

/// A process of our own that starts a shell with a child, tells their numbers, and waits to be killed.
void start_and_wait_for_death(int report, bool with_guard) {
  Engine engine;
  std::optional<ProcessGuard> guard;
  if (with_guard) guard.emplace(1);
  const std::string script = "sleep 100 & echo $$ $! >/proc/self/fd/" + std::to_string(report) + "; wait";
  const SpawnOptions options{
      .command = {"/bin/sh", "-c", script}, .inherited = {report}, .guard = guard ? &*guard : nullptr};
  ChildProcess child = ChildProcess::spawn(engine, options);
  engine.run(child.wait());
}

TEST_F(ProcessTest, a_killed_parent_takes_its_child_along_and_with_a_guard_all_descendants) {
  for (const bool with_guard : {false, true}) {
    Pipe report = Pipe::create();
    const pid_t parent = ::fork();
    if (parent == 0) {
      start_and_wait_for_death(report.write_end.number(), with_guard);
      ::_exit(0);
    }
    report.write_end.close();
    int child = 0;
    int grandchild = 0;
    const std::string line = test::read_until(report.read_end.number(), "\n");
    ASSERT_EQ(std::sscanf(line.c_str(), "%d %d", &child, &grandchild), 2) << line;
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    EXPECT_TRUE(test::ends(child));
    if (!with_guard) ::kill(grandchild, SIGKILL);
    EXPECT_TRUE(test::ends(grandchild));
  }
}

TEST_F(ProcessTest, a_guard_that_is_not_needed_harms_nobody) {
  ChildProcess child = spawn(shell("sleep 100"));
  {
    ProcessGuard guard(4);
    guard.add(child.id());
  }
  EXPECT_FALSE(child.has_ended());
}

}  // namespace
}  // namespace cohort::process_test
