// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/process_guard.h>

#include <cohort/engine/error.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <vector>

namespace cohort {
namespace {

constexpr std::uint32_t kStandDown = 0;  // no process has this number

void close_all_but(int kept) noexcept {
  const auto number = static_cast<unsigned>(kept);
  if (number > 0) ::close_range(0, number - 1, 0);
  ::close_range(number + 1, ~0U, 0);
}

/// The guard process: a copy of this one that keeps nothing of it but the channel. Async-signal-safe calls
/// only.
[[noreturn]] void stand_guard(int channel, std::span<std::uint32_t> groups) noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();  // what is sent to the group or the terminal of its parent passes it by
  ::prctl(PR_SET_NAME, "cohort-guard");
  close_all_but(channel);
  [[maybe_unused]] const int changed = ::chdir("/");

  std::size_t count = 0;
  for (;;) {
    std::uint32_t word = 0;
    const ssize_t got = ::recv(channel, &word, sizeof word, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof word) break;
    if (word == kStandDown) ::_exit(0);
    if (count < groups.size()) groups[count++] = word;
  }
  for (const std::uint32_t group : groups.first(count)) ::kill(-static_cast<pid_t>(group), SIGKILL);
  ::_exit(0);
}

}  // namespace

ProcessGuard::ProcessGuard(std::size_t most_groups) {
  std::vector<std::uint32_t> groups(most_groups);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw system_error(errno, "connecting the guard process");
  const Descriptor for_guard(ends[0]);
  channel_ = Descriptor(ends[1]);
  guard_ = ::fork();
  if (guard_ < 0) throw system_error(errno, "starting the guard process (check ulimit -u)");
  if (guard_ == 0) stand_guard(for_guard.number(), groups);
}

ProcessGuard::~ProcessGuard() {
  tell(kStandDown);
  channel_.close();
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void ProcessGuard::add(std::uint32_t group) noexcept { tell(group); }

void ProcessGuard::tell(std::uint32_t word) noexcept {
  ::send(channel_.number(), &word, sizeof word, MSG_NOSIGNAL);  // fails only if somebody killed the guard
}

}  // namespace cohort
