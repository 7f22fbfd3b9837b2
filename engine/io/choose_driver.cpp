// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/choose_driver.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/epoll_driver.h>
#include <cohort/engine/io/uring_driver.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/process.h>

#include <atomic>
#include <optional>

namespace cohort {
namespace {

/// Engines of one process are refused for one reason.
void log_once(const Error& refusal) {
  static std::atomic<bool> is_logged{false};
  if (!is_logged.exchange(true)) log(LogLevel::info, "epoll in place of io_uring: {}", refusal.message());
}

}  // namespace

std::unique_ptr<Driver> make_driver() {
  open_standard_descriptors();  // a socket in the place of a closed one would get what the log says
  const std::optional<std::string> asked = environment::text("COHORT_IO");
  if (asked == "uring") return make_uring_driver();
  if (asked == "epoll") return make_epoll_driver("by COHORT_IO");
  if (asked)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("COHORT_IO is '{}'; it may be uring or epoll, or unset for what works", *asked));
  try {
    return make_uring_driver();
  } catch (const Error& error) {
    const bool is_refused =
        error.kind() == ErrorKind::Unsupported || error.kind() == ErrorKind::ResourceLimit;
    if (!is_refused) throw;
    log_once(error);
    return make_epoll_driver("io_uring is refused");
  }
}

}  // namespace cohort
