// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/agent.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/pipe.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/process.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/auth/secret.h>
#include <cohort/tools/launch/agent_plan.h>
#include <cohort/tools/launch/job_output.h>
#include <cohort/tools/launch/launcher.h>
#include <cohort/tools/launch/meeting_point.h>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <sstream>

namespace cohort {
namespace {

constexpr std::size_t kLongestLine = 16 << 20;
constexpr int kEndedStatus = 143;  // 128 + SIGTERM
constexpr Duration kForLastNews = std::chrono::seconds(20);

/// The launcher's words, line by line.
class Commands {
 public:
  explicit Commands(Engine& engine) : input_(engine, Descriptor(STDIN_FILENO)) {}
  ~Commands() { crypto::wipe(std::as_writable_bytes(std::span(pending_))); }
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// Nothing: the launcher has gone, or has said nothing for too long.
  Task<std::optional<std::string>> next() {
    try {
      Task<std::optional<std::string>> reading = read_line();
      Task<std::optional<std::string>> timed = with_deadline(kAgentPatience, std::move(reading));
      co_return co_await timed;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::DeadlineExceeded) throw;
    }
    co_return std::nullopt;
  }

 private:
  Task<std::optional<std::string>> read_line() {
    for (;;) {
      const std::size_t end = pending_.find('\n');
      if (end != std::string::npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        co_return line;
      }
      if (pending_.size() > kLongestLine) co_return std::nullopt;
      co_await input_.until_readable();
      const std::optional<std::size_t> count = input_.try_read(scratch_);
      if (count == std::size_t{0}) co_return std::nullopt;
      if (count) pending_.append(reinterpret_cast<const char*>(scratch_.data()), *count);
    }
  }

  PipeReader input_;
  std::array<std::byte, 4096> scratch_{};
  std::string pending_;
};

class Agent {
 public:
  explicit Agent(Engine& engine)
      : engine_(engine), output_(engine, STDOUT_FILENO, STDERR_FILENO), commands_(engine) {}

  Task<int> run() {
    const std::optional<std::string> line = co_await commands_.next();
    plan_ = parse_agent_plan(line.value_or(""));
    std::optional<std::string> secret = co_await commands_.next();
    secret_ = Secret::parse(std::as_bytes(std::span(secret.value())), "the launcher's");
    crypto::wipe(std::as_writable_bytes(std::span(*secret)));
    check();
    if (plan_.first_rank == 0 && plan_.ranks < plan_.size) choose_master_port();
    if (master_port_) co_await tell(fmt::format("port {}", master_port_->number()));
    const std::string reached = address_of_ssh();
    co_await tell(fmt::format("hello {}", reached));
    const std::optional<MeetingPlace> place = co_await wait_for_start();
    if (!place) co_return kEndedStatus;
    co_return co_await run_ranks(*place);
  }

 private:
  struct MeetingPlace {
    std::string address;
    std::uint16_t master_port = 0;
  };

  /// Of those that COHORT_PORT_RANGE leaves open between hosts.
  void choose_master_port() {
    std::optional<PortRange> range;
    for (const auto& [name, value] : plan_.environment)
      if (name == "COHORT_PORT_RANGE" && !value.empty()) range = PortRange::parse(value, name);
    master_port_ = MasterPort::choose(range);
  }

  void check() const {
    if (plan_.version != COHORT_VERSION)
      throw Error(ErrorKind::Mismatch,
                  fmt::format("cohort {} is on {}, and {} where the job was started: install the same one",
                              COHORT_VERSION, plan_.host, plan_.version));
    std::error_code failure;
    std::filesystem::current_path(plan_.directory, failure);
    if (failure)
      throw Error(
          ErrorKind::InvalidArgument,
          fmt::format("the directory '{}' cannot be entered on {} ({}): make it there, or name another "
                      "one with --directory",
                      plan_.directory, plan_.host, failure.message()));
  }

  Task<> tell(std::string text) {
    const std::string line = agent_mark(plan_.token) + text + "\n";
    co_await output_.write(OutputChannel::output, line);
  }

  /// Nothing: it is over before it began.
  Task<std::optional<MeetingPlace>> wait_for_start() {
    for (;;) {
      const std::optional<std::string> line = co_await commands_.next();
      if (!line) co_return std::nullopt;
      std::istringstream words(*line);
      std::string verb;
      words >> verb;
      if (verb == "signal") co_return std::nullopt;
      if (verb == "start") {
        MeetingPlace place;
        words >> place.address >> place.master_port;
        co_return place;
      }
      if (verb != "meet") continue;
      std::vector<std::string> hosts;
      for (std::string host; words >> host;) hosts.push_back(host);
      const std::string point = choose_meeting_point(hosts);
      co_await tell("address " + point);
    }
  }

  Task<int> run_ranks(const MeetingPlace& place) {
    CancelScope* around = co_await current_scope();
    TaskScope telling(around);
    LaunchOptions options;
    options.ranks = plan_.ranks;
    options.command = plan_.command;
    options.prefix_output = plan_.prefix_output;
    options.keeps_going = plan_.keeps_going;
    options.environment = plan_.environment;
    options.time_to_notice = plan_.time_to_notice;
    options.time_to_end = plan_.time_to_end;
    options.output = &output_;
    options.beside = [this](std::vector<ChildProcess*> /*ranks*/) { return obey(); };
    HostShare share;
    share.first_rank = plan_.first_rank;
    share.size = plan_.size;
    share.address = place.address;
    share.master = {host_of(place.address), place.master_port};
    share.secret = std::move(secret_);
    share.name = plan_.host;
    share.when_failed = [this, &telling](const ExitStatus& status) {
      telling.spawn(tell(fmt::format("failed {}", status.shell_status())));
    };
    options.share = std::move(share);
    int status = 0;
    std::exception_ptr failure;
    try {
      Task<int> launching = launch(engine_, std::move(options));
      status = co_await launching;
    } catch (const Error&) {
      failure = std::current_exception();
    }
    telling.cancel_scope().set_deadline(engine_, after(engine_.now(), kForLastNews));
    try {
      co_await telling.join();
    } catch (const Error&) {  // nobody reads it: who is there has the end of this process
      if (!telling.cancel_scope().is_cancelled()) throw;
    }
    if (failure) std::rethrow_exception(failure);
    co_return status;
  }

  /// Until the ranks have ended. The job takes signals to this process as it does from a terminal.
  Task<> obey() {
    for (;;) {
      const std::optional<std::string> line = co_await commands_.next();
      if (!line) {
        end_at_once();
        co_return;
      }
      std::istringstream words(*line);
      std::string verb;
      int number = 0;
      words >> verb >> number;
      if (verb != "signal") continue;
      if (number == SIGKILL)
        end_at_once();
      else if (number == SIGTERM || number == SIGINT || number == SIGHUP)
        ::kill(::getpid(), number);
    }
  }

  /// A second signal does that; one of each kind can be pending.
  static void end_at_once() noexcept {
    ::kill(::getpid(), SIGHUP);
    ::kill(::getpid(), SIGTERM);
  }

  Engine& engine_;
  JobOutput output_;
  Commands commands_;
  AgentPlan plan_;
  SecretOfOptions secret_;
  std::optional<MasterPort> master_port_;
};

}  // namespace

Task<int> run_agent(Engine& engine) {
  Agent agent(engine);
  co_return co_await agent.run();
}

}  // namespace cohort
