// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/output_stream.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/readiness.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace cohort {
namespace {

/// write(2), but a pipe without a reader is an error and not a signal, whatever the program does about
/// SIGPIPE.
ssize_t write_without_signal(int descriptor, std::string_view text) noexcept {
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  ::sigpending(&pending);
  const bool was_pending = ::sigismember(&pending, SIGPIPE) == 1;
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int error_number = errno;
  if (written < 0 && error_number == EPIPE && !was_pending) {
    const timespec at_once{};
    ::sigtimedwait(&pipe_signal, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return written;
}

}  // namespace

OutputStream::OutputStream(Engine& engine, int descriptor) : engine_(&engine), descriptor_(descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || S_ISREG(status.st_mode))
    return;  // a closed one fails when it is written
  if (S_ISSOCK(status.st_mode)) {
    kind_ = Kind::socket;
    return;
  }
  // O_NONBLOCK belongs to the open file, which the shell and the next command share; a second opening is ours
  // alone.
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  reopened_ = Descriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  kind_ = reopened_.is_open() ? Kind::stream : Kind::blocking_stream;
  if (reopened_.is_open()) descriptor_ = reopened_.number();
}

long OutputStream::write_now(std::string_view text) noexcept {
  if (kind_ == Kind::socket)
    return ::send(descriptor_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  // A writable pipe has room for this much, so that even a blocking one does not block.
  if (kind_ == Kind::blocking_stream) text = text.substr(0, PIPE_BUF);
  return write_without_signal(descriptor_, text);
}

Task<bool> OutputStream::write(std::string_view text) {
  while (!text.empty()) {
    if (kind_ == Kind::blocking_stream) co_await until_writable(*engine_, descriptor_);
    const long written = write_now(text);
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      co_return false;
    } else if (errno == EAGAIN) {
      co_await until_writable(*engine_, descriptor_);
    } else if (errno != EINTR) {
      throw system_error(errno, "writing output");
    }
  }
  co_return true;
}

bool OutputStream::is_same_place(const OutputStream& other) const noexcept {
  struct stat mine {};
  struct stat theirs {};
  return ::fstat(descriptor_, &mine) == 0 && ::fstat(other.descriptor_, &theirs) == 0 &&
         mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
}

}  // namespace cohort
