// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

namespace cohort::test {

/// Puts this process, which has one thread, into a user namespace in which it is that user and nobody else
/// has a number. False where the kernel does not allow it.
[[nodiscard]] inline bool become_only_user(unsigned user) {
  const unsigned outside = ::geteuid();
  if (::unshare(CLONE_NEWUSER) != 0) return false;
  std::ofstream map("/proc/self/uid_map");
  map << fmt::format("{} {} 1\n", user, outside) << std::flush;
  return map.good() && ::geteuid() == user;
}

}  // namespace cohort::test
