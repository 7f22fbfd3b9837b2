// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/driver.h>

#include <memory>
#include <string>

namespace cohort {

/// epoll and system calls that do not wait, for where io_uring is not to be had: containers whose seccomp
/// profile forbids it, older kernels. `why` goes into its description.
///
/// Requests end as those of io_uring do, but for a connection to a Unix listener whose queue is full: -EAGAIN
/// at once, since the kernel tells nobody when there is room. A socket that it connects is left non-blocking.
/// Has no futex waits.
///
/// Threads: one at a time, any, since no request belongs to who made it; the descriptor may be waited for
/// meanwhile. Throws SystemError, ResourceLimit.
[[nodiscard]] std::unique_ptr<Driver> make_epoll_driver(std::string why);

}  // namespace cohort
