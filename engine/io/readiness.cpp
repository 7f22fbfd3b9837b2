// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/readiness.h>

#include <cohort/engine/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <cerrno>

namespace cohort {
namespace {

Task<> until_ready(Engine& engine, int descriptor, std::uint32_t events) {
  for (;;) {
    IoOperation operation(engine.driver(), {.kind = IoKind::poll, .descriptor = descriptor, .flags = events});
    const int result = co_await operation;
    if (result >= 0) co_return;
    if (result != -EINTR && result != -EAGAIN)
      throw system_error(-result, fmt::format("polling descriptor {}", descriptor));
  }
}

}  // namespace

Task<> until_readable(Engine& engine, int descriptor) { return until_ready(engine, descriptor, POLLIN); }
Task<> until_writable(Engine& engine, int descriptor) { return until_ready(engine, descriptor, POLLOUT); }

void set_nonblocking(int descriptor, std::string_view what) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0)
    throw system_error(errno, fmt::format("preparing {}", what));
}

}  // namespace cohort
