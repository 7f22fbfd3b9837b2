// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/host.h>

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace cohort::host {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Lines of "first here, first outside, how many".
bool maps_all_users(const char* path) {
  constexpr std::uint64_t kUsers = 0xffffffff;
  std::ifstream map(path);
  std::uint64_t mapped = 0;
  for (std::uint64_t here = 0, outside = 0, count = 0; map >> here >> outside >> count;) mapped += count;
  return mapped >= kUsers;
}

}  // namespace

std::uint32_t user_id() noexcept { return ::geteuid(); }

bool tells_users_apart() {
  constexpr std::uint32_t kUsualOverflow = 65534;
  std::uint32_t overflow = kUsualOverflow;
  std::ifstream("/proc/sys/kernel/overflowuid") >> overflow;
  return user_id() != overflow || maps_all_users("/proc/self/uid_map");
}

std::string name() {
  const std::string line = first_line("/proc/sys/kernel/hostname");
  return line.empty() ? "unknown host" : line;
}

std::string fingerprint() {
  std::error_code ignored;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
  return fmt::format("{}|{}|{}", kernel_id(), network, user_id());
}

std::string kernel_id() {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  return boot.empty() ? name() : boot;  // hidden in some containers: the next best that tells hosts apart
}

}  // namespace cohort::host
