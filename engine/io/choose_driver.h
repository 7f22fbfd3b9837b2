// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/driver.h>

#include <memory>

namespace cohort {

/// What COHORT_IO=uring|epoll asks for; without it io_uring, or where that is refused epoll, with a line in
/// the log at level info that says why. Throws what making it throws, and InvalidArgument for any other
/// COHORT_IO.
[[nodiscard]] std::unique_ptr<Driver> make_driver();

}  // namespace cohort
