// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/process.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/process_guard.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace cohort {
namespace {

/// All that the child needs, made before the fork: between fork and exec a child of a threaded process may
/// not allocate.
struct ChildPlan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::vector<std::string> environment_text;
  std::vector<int> inherited;
  int input = -1;   ///< for standard input; -1: nothing to read
  int output = -1;  ///< for standard output; -1: as it is
  int errors = -1;
  int report = -1;  ///< where the child says what went wrong; closed by a successful exec
  pid_t parent = 0;
  ProcessGuard* guard = nullptr;
};

/// What the child could not do.
struct ChildFailure {
  enum class Step : int { prepare, execute };
  Step step = Step::prepare;
  int error_number = 0;
};

[[noreturn]] void give_up(const ChildPlan& plan, ChildFailure::Step step) noexcept {
  const ChildFailure failure{step, errno};
  [[maybe_unused]] const ssize_t written = ::write(plan.report, &failure, sizeof failure);
  ::_exit(127);
}

/// Handlers of the parent must not run in the child, and what the parent blocks is no affair of the program.
void reset_signals() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool place_descriptors(const ChildPlan& plan) noexcept {
  // Under a process group of its own, reading the terminal would stop the program.
  const int input = plan.input >= 0 ? plan.input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0) return false;
  if (input == STDIN_FILENO && ::fcntl(input, F_SETFD, 0) != 0) return false;
  if (plan.output >= 0 && ::dup2(plan.output, STDOUT_FILENO) < 0) return false;
  if (plan.errors >= 0 && ::dup2(plan.errors, STDERR_FILENO) < 0) return false;
  return std::all_of(plan.inherited.begin(), plan.inherited.end(),
                     [](int number) { return ::fcntl(number, F_SETFD, 0) == 0; });
}

/// The child, from fork to exec: async-signal-safe calls only.
[[noreturn]] void become_program(const ChildPlan& plan) noexcept {
  using Step = ChildFailure::Step;
  if (::setpgid(0, 0) != 0) give_up(plan, Step::prepare);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(plan, Step::prepare);
  if (::getppid() != plan.parent) ::_exit(127);  // it died before it could be watched
  if (plan.guard != nullptr) plan.guard->add(static_cast<std::uint32_t>(::getpid()));
  if (!place_descriptors(plan)) give_up(plan, Step::prepare);
  reset_signals();
  ::execvpe(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  give_up(plan, Step::execute);
}

std::vector<std::string> merged_environment(const SpawnOptions& options) {
  std::vector<std::string> text;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool is_replaced = std::any_of(options.environment.begin(), options.environment.end(),
                                         [&](const auto& pair) { return pair.first == name; });
    if (!is_replaced) text.emplace_back(variable);
  }
  for (const auto& [name, value] : options.environment) text.push_back(name + "=" + value);
  return text;
}

std::vector<char*> null_terminated(const std::vector<std::string>& text) {
  std::vector<char*> pointers;
  for (const std::string& entry : text) pointers.push_back(const_cast<char*>(entry.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// A process that was started to ignore SIGCHLD would never learn how its children ended.
void keep_exit_statuses() noexcept {
  struct sigaction action {};
  if (::sigaction(SIGCHLD, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) return;
  action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
}

/// Blocks until the program runs (nullopt) or the child has said why not.
std::optional<ChildFailure> read_report(int report) noexcept {
  ChildFailure failure;
  for (;;) {
    const ssize_t count = ::read(report, &failure, sizeof failure);
    if (count == sizeof failure) return failure;
    if (count >= 0 || errno != EINTR) return std::nullopt;
  }
}

std::string_view advice_for(const std::string& program, int error_number) {
  const bool is_path = program.find('/') != std::string::npos;
  if (error_number == ENOENT && is_path && ::access(program.c_str(), F_OK) == 0)
    return "it exists, but the interpreter that it asks for does not";
  if (error_number == ENOENT)
    return is_path ? "give the path of a program" : "give a path, or a name that is in PATH";
  struct stat about {};
  const bool is_folder = is_path && ::stat(program.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
  if (is_folder) return "it is a folder: give a program";
  if (error_number == EACCES) return "give a program that this user may execute";
  if (error_number == ENOEXEC)
    return "it is neither a program for this machine nor a script that starts with #!";
  return "check the program and its arguments";
}

Error cannot_start(const std::string& program, const ChildFailure& failure) {
  const int number = failure.error_number;
  if (failure.step == ChildFailure::Step::prepare || number == ENOMEM || number == EMFILE || number == ENFILE)
    return system_error(number, fmt::format("starting '{}'", program));
  return Error(ErrorKind::InvalidArgument,
               fmt::format("'{}' cannot be started: {} (errno {}); {}", program, ::strerrordesc_np(number),
                           number, advice_for(program, number)));
}

/// Its ends never take the numbers 0 to 2, even if this process was started without those.
Pipe make_high_pipe() {
  Pipe pipe = Pipe::create();
  for (Descriptor* end : {&pipe.read_end, &pipe.write_end}) {
    if (end->number() > STDERR_FILENO) continue;
    Descriptor high(::fcntl(end->number(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!high.is_open()) throw system_error(errno, "duplicating a descriptor");
    *end = std::move(high);
  }
  return pipe;
}

PipeReader make_output_pipe(Engine& engine, Descriptor& write_end) {
  Pipe pipe = make_high_pipe();
  write_end = std::move(pipe.write_end);
  return PipeReader(engine, std::move(pipe.read_end));
}

}  // namespace

std::uint32_t current_process() noexcept { return static_cast<std::uint32_t>(::getpid()); }

void open_standard_descriptors() noexcept {
  int number = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  while (number >= 0 && number <= STDERR_FILENO) {
    ::fcntl(number, F_SETFD, 0);
    number = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  }
  if (number >= 0) ::close(number);
}

std::string ExitStatus::describe(std::size_t processes) const {
  if (signal == 0) return fmt::format("exited with status {}", code);
  const char* meaning = ::sigdescr_np(signal);
  return fmt::format("{} killed by {} ({}){}", processes == 1 ? "was" : "were", signal_name(signal),
                     meaning != nullptr ? meaning : "unknown", has_core ? ", core dumped" : "");
}

ChildProcess ChildProcess::spawn(Engine& engine, const SpawnOptions& options) {
  COHORT_ASSERT(!options.command.empty(), "no program to start");
  for (const int number : options.inherited)
    COHORT_ASSERT(number > STDERR_FILENO, "descriptor {} cannot be handed on", number);

  ChildPlan plan;
  plan.arguments = null_terminated(options.command);
  plan.environment_text = merged_environment(options);
  plan.environment = null_terminated(plan.environment_text);
  plan.inherited = options.inherited;
  plan.parent = ::getpid();
  plan.guard = options.guard;
  Pipe report = make_high_pipe();
  plan.report = report.write_end.number();
  Descriptor output_end;
  Descriptor errors_end;
  PipeReader output;
  PipeReader errors;
  if (options.has_output_pipes) {
    output = make_output_pipe(engine, output_end);
    errors = make_output_pipe(engine, errors_end);
  }
  Pipe input;
  if (options.has_input_pipe) input = make_high_pipe();
  plan.input = input.read_end.number();
  plan.output = output_end.number();
  plan.errors = errors_end.number();

  keep_exit_statuses();
  const pid_t process = ::fork();
  if (process < 0)
    throw system_error(errno, fmt::format("starting '{}' (check ulimit -u)", options.command[0]));
  if (process == 0) become_program(plan);
  report.write_end.close();
  const std::optional<ChildFailure> failure = read_report(report.read_end.number());
  try {
    if (failure) throw cannot_start(options.command[0], *failure);
    ChildProcess child(ProcessWatch(engine, static_cast<std::uint32_t>(process)));
    child.output_ = std::move(output);
    child.errors_ = std::move(errors);
    child.input_ = std::move(input.write_end);
    return child;
  } catch (...) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    throw;
  }
}

ChildProcess::~ChildProcess() {
  if (!watch_.pidfd_.is_open()) return;  // moved from
  signal(ProcessSignal::kill);
  siginfo_t info{};
  while (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(watch_.pidfd_.number()), &info,
                  WEXITED) != 0 &&
         errno == EINTR) {
  }
}

Task<ExitStatus> ChildProcess::wait() {
  co_await watch_.until_exit();
  siginfo_t info{};
  const auto pidfd = static_cast<id_t>(watch_.pidfd_.number());
  if (::waitid(static_cast<idtype_t>(P_PIDFD), pidfd, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    throw system_error(errno, fmt::format("asking how process {} ended", id()));
  ExitStatus status;
  if (info.si_code == CLD_EXITED)
    status.code = info.si_status;
  else
    status.signal = info.si_status;
  status.has_core = info.si_code == CLD_DUMPED;
  co_return status;
}

void ChildProcess::signal(ProcessSignal signal) noexcept {
  const auto number = static_cast<int>(signal);
  const auto leader = static_cast<pid_t>(id());
  ::kill(-leader, number);
  // A program may have moved to another group.
  if (signal == ProcessSignal::kill) ::kill(leader, number);
}

}  // namespace cohort
