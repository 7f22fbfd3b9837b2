// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

/// Reading a job's secret, with the care that a secret needs. What the bytes mean is net/auth/secret.h's
/// affair; the caller moves them there, where they are wiped.
///
/// Threads: any; both block, so before the engine runs. Errors: AuthFailed naming what was found and what to
/// do.
namespace cohort {

/// No secret is longer.
inline constexpr std::size_t kMostSecretFileBytes = 4096;

/// The bytes of a regular file that belongs to the effective user and that nobody else may read or write. The
/// last component of the path may not be a symbolic link.
[[nodiscard]] std::vector<std::byte> read_secret_file(const std::string& path);

/// All bytes of an inherited descriptor, which is closed in any case. A seekable one is read from its start
/// wherever its offset stands: processes that inherited it share that offset. A pipe is read until its writer
/// closes it, at the latest for `patience`.
[[nodiscard]] std::vector<std::byte> read_secret_fd(int fd, Duration patience = std::chrono::seconds(5));

}  // namespace cohort
