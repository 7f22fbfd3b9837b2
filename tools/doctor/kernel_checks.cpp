// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>
#include <cohort/engine/io/choose_driver.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/peer_memory.h>
#include <cohort/tools/doctor/checks.h>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cohort::doctor {
namespace {

/// Whether the kernel lets this process read another one of its user that is no child of its own, as ranks
/// do: the child reads its parent.
int read_parent() {
  static volatile int word = 7;
  std::array<std::byte, sizeof word> bytes{};
  const auto parent = static_cast<std::uint32_t>(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    const int failure =
        read_peer_memory(parent, bytes.data(), reinterpret_cast<std::uintptr_t>(&word), bytes.size());
    ::_exit(failure);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return ECHILD;
  return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

void check_version(Findings& findings) {
  utsname names{};
  ::uname(&names);
  int major = 0;
  int minor = 0;
  (void)std::sscanf(names.release, "%d.%d", &major, &minor);
  const std::string text = fmt::format("cohort {}, Linux {}", COHORT_VERSION, names.release);
  if (major * 100 + minor < 511)
    findings.problem("kernel", text,
                     "use Linux 5.11 or later: before it there is no io_uring as it is needed, and waiting "
                     "costs more system calls");
  else if (major * 100 + minor < 607)
    findings.note("kernel", text + ": ranks that sleep are woken by descriptors, from 6.7 on by futexes");
  else
    findings.fine("kernel", text);
}

/// As an engine finds it, whatever COHORT_IO says.
std::string why_no_uring() {
  const std::string before = environment::text("COHORT_IO").value_or("");
  ::setenv("COHORT_IO", "uring", 1);
  std::string reason;
  try {
    (void)make_driver();
  } catch (const Error& error) {
    reason = error.message();
  }
  if (before.empty())
    ::unsetenv("COHORT_IO");
  else
    ::setenv("COHORT_IO", before.c_str(), 1);
  return reason;
}

void check_uring(Findings& findings) {
  if (environment::text("COHORT_IO") == "epoll") {
    findings.problem("io_uring", "COHORT_IO=epoll turns it off", "unset COHORT_IO");
    return;
  }
  const std::string reason = why_no_uring();
  if (reason.empty()) {
    findings.fine("io_uring", "works");
    return;
  }
  const bool is_disabled = number_in("/proc/sys/kernel/io_uring_disabled").value_or(0) != 0;
  findings.problem("io_uring", fmt::format("is refused, epoll is used in its place: {}", reason),
                   is_disabled ? "sysctl kernel.io_uring_disabled=0"
                               : "raise `ulimit -l`; in a container allow io_uring in its seccomp profile");
}

void check_kernel_copies(Findings& findings) {
  const auto scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
  const int failure = read_parent();
  if (failure == 0 && scope.value_or(0) == 0) {
    findings.fine("kernel copies", "between processes of this user work");
    return;
  }
  if (scope.value_or(0) != 0)
    findings.problem("kernel copies",
                     fmt::format("yama's ptrace_scope is {}: large private buffers of ranks of a host are "
                                 "copied twice",
                                 *scope),
                     "sysctl kernel.yama.ptrace_scope=0");
  else
    findings.problem(
        "kernel copies", fmt::format("are refused ({})", ::strerrordesc_np(failure)),
        "in a container add the capability SYS_PTRACE, or allow process_vm_readv in its seccomp profile");
}

void check_clock(Findings& findings) {
  const auto source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (!source) return;
  const bool is_slow = *source == "hpet" || *source == "acpi_pm" || *source == "jiffies";
  if (is_slow)
    findings.problem("clock",
                     fmt::format("the kernel reads {}, a system call and microseconds each time", *source),
                     "boot with clocksource=tsc tsc=reliable, if the machine's TSC is");
  else
    findings.fine("clock", *source);
}

void check_huge_pages(Findings& findings) {
  const auto mode = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (!mode) return;
  if (mode->find("[never]") != std::string::npos || mode->find("[deny]") != std::string::npos)
    findings.note(
        "huge pages",
        fmt::format("not for shared memory ({}): large shared buffers are about a tenth slower; echo "
                    "advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
                    *mode));
  else
    findings.fine("huge pages", *mode);
}

}  // namespace

void check_kernel(Findings& findings) {
  check_version(findings);
  check_uring(findings);
  check_kernel_copies(findings);
  check_clock(findings);
  check_huge_pages(findings);
}

}  // namespace cohort::doctor
