// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/wakeup.h>

#include <cohort/engine/error.h>

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace cohort::wakeup {

Descriptor make_event() {
  Descriptor event(::eventfd(0, EFD_CLOEXEC));
  if (!event.is_open()) throw system_error(errno, "creating an eventfd");
  return event;
}

void signal_event(int descriptor) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(descriptor, &one, sizeof one);
}

void wake_futex(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace cohort::wakeup
