// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/secret_file.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/socket.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

namespace cohort {
namespace {

/// One byte more than allowed, so that a longer secret is seen. Never reallocates, so that no copy stays
/// behind.
class Buffer {
 public:
  Buffer() : bytes_(kMostSecretFileBytes + 1) {}
  ~Buffer() {
    if (!bytes_.empty()) ::explicit_bzero(bytes_.data(), bytes_.size());
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] std::byte* end() noexcept { return bytes_.data() + size_; }
  [[nodiscard]] std::size_t room() const noexcept { return bytes_.size() - size_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void grow(std::size_t count) noexcept { size_ += count; }
  [[nodiscard]] std::vector<std::byte> take() {
    bytes_.resize(size_);
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t size_ = 0;
};

Error refused(std::string message) { return Error(ErrorKind::AuthFailed, std::move(message)); }

/// For a system call that failed.
Error cannot_be(int error_number, std::string_view what, std::string_view source) {
  return refused(fmt::format("the secret from {} cannot be {}: {} (errno {}); give one that user {} can read",
                             source, what, std::system_category().message(error_number), error_number,
                             ::geteuid()));
}

std::string_view kind_of(mode_t mode) noexcept {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "of another kind";
}

Descriptor open_secret(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would otherwise wait for its writer before fstat could refuse it.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.is_open()) return file;
  const int error_number = errno;
  if (error_number == ELOOP)
    throw refused(fmt::format(
        "the secret file {} is a symbolic link: name the file itself, or open it for the program: "
        "COHORT_SECRET_FD=9 PROGRAM 9<{}",
        path, path));
  throw cannot_be(error_number, "opened", path);
}

void check_secret(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode))
    throw refused(
        fmt::format("the secret file {} is {}: give a regular file", path, kind_of(status.st_mode)));
  // Where a user namespace shows other users by this one's number, the mode below tells: of a file that only
  // its owner may read, and that could be opened, that is this one.
  if (status.st_uid != ::geteuid())
    throw refused(
        fmt::format("the secret file {} belongs to user {}, this process is of user {}: give it its own",
                    path, status.st_uid, ::geteuid()));
  if ((status.st_mode & 077) != 0)
    throw refused(
        fmt::format("the secret file {} has mode {:04o}, so that others may use it: chmod 600 {}, and make a "
                    "new secret if others had the time to read it",
                    path, status.st_mode & 07777, path));
}

Error too_long(std::string_view source) {
  return refused(
      fmt::format("the secret from {} has more than {} bytes: give 32 bytes, 64 hexadecimal digits or a line "
                  "of text",
                  source, kMostSecretFileBytes));
}

/// A file's bytes from its start, whatever its offset.
std::vector<std::byte> read_from_start(int file, std::string_view source) {
  Buffer buffer;
  while (buffer.room() > 0) {
    const ssize_t count = ::pread(file, buffer.end(), buffer.room(), static_cast<off_t>(buffer.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw cannot_be(errno, "read", source);
    if (count == 0) return buffer.take();
    buffer.grow(static_cast<std::size_t>(count));
  }
  throw too_long(source);
}

/// Returns when there is something to read or the other end has closed; throws at the deadline.
void wait_readable(int stream, std::string_view source, TimePoint deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicClock().now());
    const auto wait_ms = std::clamp<std::int64_t>(left.count(), 0, 1'000'000);
    pollfd entry{.fd = stream, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(wait_ms));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw cannot_be(errno, "awaited", source);
    if (MonotonicClock().now() >= deadline)
      throw refused(fmt::format(
          "the secret from {} did not end in time: whoever writes it must close its end", source));
  }
}

std::vector<std::byte> read_to_end(int stream, std::string_view source, TimePoint deadline) {
  Buffer buffer;
  while (buffer.room() > 0) {
    wait_readable(stream, source, deadline);
    const ssize_t count = ::read(stream, buffer.end(), buffer.room());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) throw cannot_be(errno, "read", source);
    if (count == 0) return buffer.take();
    buffer.grow(static_cast<std::size_t>(count));
  }
  throw too_long(source);
}

}  // namespace

std::vector<std::byte> read_secret_file(const std::string& path) {
  const Descriptor file = open_secret(path);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) throw cannot_be(errno, "examined", path);
  check_secret(path, status);
  return read_from_start(file.number(), path);
}

std::vector<std::byte> read_secret_fd(int fd, Duration patience) {
  const TimePoint deadline = after(MonotonicClock().now(), patience);
  const std::string source = fmt::format("descriptor {}", fd);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0)
    throw refused(fmt::format(
        "the secret was announced on descriptor {}, which is not open: start the program with it, "
        "as in COHORT_SECRET_FD=9 PROGRAM 9<FILE",
        fd));
  const Descriptor stream(fd);
  if (S_ISREG(status.st_mode)) return read_from_start(fd, source);
  return read_to_end(fd, source, deadline);
}

}  // namespace cohort
