// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/readiness.h>

#include <cohort/engine/error.h>

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

}  // namespace cohort
