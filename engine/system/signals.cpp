// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/signals.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/readiness.h>

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace cohort {
namespace {

static_assert(static_cast<int>(ProcessSignal::hang_up) == SIGHUP &&
              static_cast<int>(ProcessSignal::interrupt) == SIGINT &&
              static_cast<int>(ProcessSignal::kill) == SIGKILL &&
              static_cast<int>(ProcessSignal::terminate) == SIGTERM &&
              static_cast<int>(ProcessSignal::resume) == SIGCONT);

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

Signals::Signals(Engine& engine, std::initializer_list<ProcessSignal> which) : engine_(engine) {
  sigset_t wanted;
  sigset_t before;
  ::sigemptyset(&wanted);
  for (const ProcessSignal signal : which) {
    const int number = static_cast<int>(signal);
    if (!is_ignored(number)) ::sigaddset(&wanted, number);
  }
  descriptor_ = Descriptor(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.is_open()) throw system_error(errno, "creating a signalfd");
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before);
  for (const ProcessSignal signal : which) {
    const int number = static_cast<int>(signal);
    if (::sigismember(&wanted, number) == 1 && ::sigismember(&before, number) == 0)
      blocked_here_ |= std::uint64_t{1} << number;
  }
}

Signals::~Signals() {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  for (int number = 1; number < 64; ++number)
    if ((blocked_here_ >> number & 1) != 0) ::sigaddset(&blocked, number);
  ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
}

Task<ProcessSignal> Signals::next() {
  for (;;) {
    signalfd_siginfo info{};
    const ssize_t count = ::read(descriptor_.number(), &info, sizeof info);
    if (count == sizeof info) co_return static_cast<ProcessSignal>(info.ssi_signo);
    if (count < 0 && errno != EAGAIN && errno != EINTR) throw system_error(errno, "reading a signalfd");
    co_await until_readable(engine_, descriptor_.number());
  }
}

}  // namespace cohort
