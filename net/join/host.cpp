// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/host.h>

#include <cohort/net/join/crypto.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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

}  // namespace

std::uint32_t process_id() noexcept { return static_cast<std::uint32_t>(::getpid()); }

std::uint32_t user_id() noexcept { return ::geteuid(); }

std::string name() {
  const std::string line = first_line("/proc/sys/kernel/hostname");
  return line.empty() ? "unknown host" : line;
}

std::array<std::byte, 16> id() {
  std::error_code ignored;  // without /proc the boot id is empty too, and the host name must tell hosts apart
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  const std::string all = fmt::format("{}|{}|{}|{}", boot, boot.empty() ? name() : "", network, user_id());
  const crypto::Digest digest = crypto::sha256(std::as_bytes(std::span(all)));
  std::array<std::byte, 16> result{};
  std::copy_n(digest.begin(), result.size(), result.begin());
  return result;
}

}  // namespace cohort::host
