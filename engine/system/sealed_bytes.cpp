// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/sealed_bytes.h>

#include <cohort/engine/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace cohort {

Descriptor make_sealed_bytes(std::span<const std::byte> bytes) {
  Descriptor file(::memfd_create("cohort-sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) throw system_error(errno, "creating a file in memory (memfd)");
  const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
  if (written < 0) throw system_error(errno, "writing a file in memory (memfd)");
  if (static_cast<std::size_t>(written) != bytes.size())
    throw Error(
        ErrorKind::ResourceLimit,
        fmt::format("only {} of {} bytes fitted into a file in memory (memfd)", written, bytes.size()));
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (::fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) throw system_error(errno, "sealing a file in memory");
  if (file.number() > STDERR_FILENO) return file;
  Descriptor above(::fcntl(file.number(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!above.is_open()) throw system_error(errno, "duplicating a descriptor");
  return above;
}

}  // namespace cohort
