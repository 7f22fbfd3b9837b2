// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/driver.h>

#include <memory>

namespace cohort {

/// io_uring, from SINGLE_ISSUER + DEFER_TASKRUN (Linux 6.1) down to a plain ring, by trying.
///
/// Throws Unsupported, saying why and what to change, when the kernel, a container or a sysctl refuses
/// io_uring.
[[nodiscard]] std::unique_ptr<Driver> make_uring_driver();

}  // namespace cohort
