// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/process_watch.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/readiness.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cohort {

ProcessWatch::ProcessWatch(Engine& engine, std::uint32_t process) : engine_(&engine), process_(process) {
  pidfd_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (pidfd_.is_open()) return;
  if (errno == ENOSYS)
    throw Error(ErrorKind::Unsupported,
                "this kernel has no pidfd_open (ENOSYS); Linux 5.3 or newer is needed");
  throw system_error(errno, fmt::format("watching process {} (is it in another pid namespace?)", process));
}

bool ProcessWatch::has_ended() const noexcept {
  pollfd entry{.fd = pidfd_.number(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

Task<> ProcessWatch::until_exit() { return until_readable(*engine_, pidfd_.number()); }

}  // namespace cohort
