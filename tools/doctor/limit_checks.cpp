// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>
#include <cohort/engine/system/affinity.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/file_text.h>
#include <cohort/engine/system/locked_memory.h>
#include <cohort/tools/doctor/checks.h>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>

namespace cohort::doctor {
namespace {

constexpr std::uint64_t kMega = 1 << 20;
constexpr std::uint64_t kGiga = 1 << 30;
/// Rings of a few engines.
constexpr std::uint64_t kLeastLocked = 8 * kMega;
constexpr std::uint64_t kLeastDescriptors = 4096;
constexpr std::uint64_t kLeastProcesses = 512;
constexpr std::uint64_t kLeastShm = 64 * kMega;
constexpr std::uint64_t kLeastMemory = 512 * kMega;

std::uint64_t hard_limit(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
    return ~std::uint64_t{0};
  return limit.rlim_max;
}

std::uint64_t soft_limit(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return ~std::uint64_t{0};
  return limit.rlim_cur;
}

void check_descriptors(Findings& findings) {
  const std::uint64_t most = hard_limit(RLIMIT_NOFILE);
  if (most < kLeastDescriptors)
    findings.problem(
        "descriptors", fmt::format("at most {} can be open (ulimit -Hn)", most),
        fmt::format("raise the hard limit to {}, in /etc/security/limits.conf (nofile) or the service's "
                    "LimitNOFILE; ranks raise the soft one themselves",
                    1 << 20));
  else
    findings.fine("descriptors", fmt::format("up to {}", most));
}

void check_locked(Findings& findings) {
  const std::size_t limit = locked_memory_limit();
  if (limit < kLeastLocked)
    findings.problem(
        "locked memory",
        fmt::format("{} (ulimit -l): io_uring's rings count against it, and what RDMA registers",
                    in_units(limit)),
        "set memlock to unlimited in /etc/security/limits.conf, or LimitMEMLOCK=infinity in the service");
  else
    findings.fine("locked memory", limit == kNoLimit ? "no limit" : in_units(limit));
}

/// What makes no sense is told with the other variables.
std::uint64_t heap_bytes() {
  constexpr std::uint64_t kDefault = 4 * kGiga;
  try {
    return environment::bytes("COHORT_HEAPSIZE").value_or(kDefault);
  } catch (const Error&) {
    return kDefault;
  }
}

void check_sizes(Findings& findings) {
  const std::uint64_t heap = heap_bytes();
  const std::uint64_t space = soft_limit(RLIMIT_AS);
  if (space < 2 * heap)
    findings.problem("address space",
                     fmt::format("{} (ulimit -v), and each rank of a host maps {} of every one",
                                 in_units(space), in_units(heap)),
                     "ulimit -v unlimited, or lower COHORT_HEAPSIZE");
  const std::uint64_t file = soft_limit(RLIMIT_FSIZE);
  if (file < heap)
    findings.problem("file size",
                     fmt::format("{} (ulimit -f), which counts for shared memory too, of {} for each rank",
                                 in_units(file), in_units(heap)),
                     "ulimit -f unlimited, or lower COHORT_HEAPSIZE");
  const std::uint64_t processes = hard_limit(RLIMIT_NPROC);
  if (processes < kLeastProcesses)
    findings.problem("processes", fmt::format("a user may have {} (ulimit -u), threads included", processes),
                     "raise nproc in /etc/security/limits.conf, or the service's TasksMax");
}

/// The folders of this process's cgroup, from its own up.
std::vector<std::string> cgroup_folders() {
  const std::string all = file_text("/proc/self/cgroup").value_or("");
  std::istringstream lines(all);
  std::vector<std::string> folders;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3);; path.erase(path.rfind('/'))) {
      folders.push_back("/sys/fs/cgroup" + path);
      if (path.find('/') == std::string::npos || path == "/") break;
    }
  }
  return folders;
}

/// The least of all; nothing: no limit.
std::optional<std::uint64_t> cgroup_limit(const char* file) {
  std::optional<std::uint64_t> least;
  for (const std::string& folder : cgroup_folders())
    if (const auto value = number_in(fmt::format("{}/{}", folder, file)))
      least = std::min(least.value_or(*value), *value);
  return least;
}

/// In cores.
std::optional<double> processor_limit() {
  std::optional<double> least;
  for (const std::string& folder : cgroup_folders()) {
    std::istringstream words(first_line(folder + "/cpu.max").value_or("max"));
    double quota = 0;
    double period = 0;
    if (words >> quota >> period && period > 0)
      least = std::min(least.value_or(quota / period), quota / period);
  }
  return least;
}

}  // namespace

void check_limits(Findings& findings) {
  check_descriptors(findings);
  check_locked(findings);
  check_sizes(findings);
}

void check_cgroups(Findings& findings) {
  const std::size_t cores = affinity::usable_processors().size();
  if (const auto limit = processor_limit(); limit && *limit < static_cast<double>(cores))
    findings.problem(
        "cgroup: processors",
        fmt::format("{:g} cores' time on {} cores: all are stopped when it is used up", *limit, cores),
        fmt::format("start at most {} ranks here, or raise cpu.max (limits.cpu of the pod)",
                    std::max(1, static_cast<int>(*limit))));
  const auto memory = cgroup_limit("memory.max");
  if (memory && *memory < 2 * kLeastMemory)
    findings.problem("cgroup: memory", fmt::format("{}; shared memory counts too", in_units(*memory)),
                     "raise memory.max (limits.memory of the pod)");
  const auto processes = cgroup_limit("pids.max");
  if (processes && *processes < kLeastProcesses)
    findings.problem("cgroup: processes", fmt::format("{}, threads included", *processes), "raise pids.max");
}

void check_memory(Findings& findings) {
  std::istringstream lines(file_text("/proc/meminfo").value_or(""));
  std::string name;
  std::uint64_t kilobytes = 0;
  std::string unit;
  while (lines >> name >> kilobytes >> unit)
    if (name == "MemAvailable:") break;
  const std::uint64_t available = kilobytes * 1024;
  if (name == "MemAvailable:" && available < kLeastMemory)
    findings.problem("memory", fmt::format("{} available", in_units(available)), "end what else runs here");
  else
    findings.fine("memory", fmt::format("{} available", in_units(available)));
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) != 0) {
    findings.note("/dev/shm", "is not there: cohort needs it not, PyTorch's loaders and MPI do");
    return;
  }
  const std::uint64_t size = static_cast<std::uint64_t>(shm.f_blocks) * shm.f_frsize;
  if (size <= kLeastShm)
    findings.problem(
        "/dev/shm",
        fmt::format("{}: cohort needs it not, PyTorch's loaders, MPI and NCCL do", in_units(size)),
        "docker run --shm-size=8g; in Kubernetes an emptyDir with medium: Memory at /dev/shm");
  else
    findings.fine("/dev/shm", in_units(size));
}

void check_cores(Findings& findings) {
  const std::size_t usable = affinity::usable_processors().size();
  const auto online = static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  const std::string text = fmt::format("{} of {} processors may be used", usable, online);
  if (usable < online)
    findings.note("cores", text + " (affinity): ranks have no others");
  else
    findings.fine("cores", text);
  double load = 0;
  if (::getloadavg(&load, 1) == 1 && load > static_cast<double>(online))
    findings.note("load",
                  fmt::format("{:.1f} on {} processors: ranks wait for each other's turns", load, online));
}

}  // namespace cohort::doctor
