// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

/// What tests ask the kernel about processes and descriptors.
namespace cohort::test {

/// "NUMBER -> what it is" for each open descriptor of this process.
inline std::set<std::string> list_of_descriptors() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().find("/proc/") != 0)
      found.insert(entry.path().filename().string() + " -> " + target.string());
  }
  return found;
}

/// Whether a child of this process exists, ended or not, that nobody has waited for.
inline bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

/// Whether the process ends within ten seconds, also if its parent does not ask for its status.
inline bool ends(int process) {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (pidfd < 0) return errno == ESRCH;
  pollfd entry{.fd = pidfd, .events = POLLIN, .revents = 0};
  const bool has_ended = ::poll(&entry, 1, 10'000) == 1;
  ::close(pidfd);
  return has_ended;
}

/// A nameless file that collects output of any size.
class Collector {
 public:
  Collector() : descriptor_(::memfd_create("collector", MFD_CLOEXEC)) {}
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector() { ::close(descriptor_); }

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::string text() const {
    std::string bytes(static_cast<std::size_t>(::lseek(descriptor_, 0, SEEK_END)), '\0');
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return bytes;
  }

 private:
  int descriptor_;
};

/// In small pieces, as a slow reader.
inline std::string read_to_end(int descriptor) {
  std::string text;
  char bytes[512] = {};
  for (ssize_t count = 1; count > 0;) {
    count = ::read(descriptor, bytes, sizeof bytes);
    if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
  }
  return text;
}

/// Reads until the text contains `end`, or the stream ends.
inline std::string read_until(int descriptor, const std::string& end) {
  std::string text;
  char byte = 0;
  while (text.find(end) == std::string::npos && ::read(descriptor, &byte, 1) == 1) text += byte;
  return text;
}

}  // namespace cohort::test
