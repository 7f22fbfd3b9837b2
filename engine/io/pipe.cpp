// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/pipe.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/readiness.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace cohort {

Pipe Pipe::create() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error(errno, "creating a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

PipeReader::PipeReader(Engine& engine, Descriptor read_end)
    : engine_(&engine), descriptor_(std::move(read_end)) {
  // Not shared with the writing end, nor with whoever inherited that.
  set_nonblocking(descriptor_.number(), "a pipe");
}

Task<> PipeReader::until_readable() { return cohort::until_readable(*engine_, descriptor_.number()); }

std::optional<std::size_t> PipeReader::try_read(std::span<std::byte> into) {
  for (;;) {
    const ssize_t count = ::read(descriptor_.number(), into.data(), into.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) throw system_error(errno, "reading a pipe");
  }
}

}  // namespace cohort
