// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

#include <string_view>

namespace cohort {

/// Suspends until reading from the descriptor would not block: there are bytes, or its end, or an error to be
/// read. For pidfds: until the process has ended. Throws SystemError when the descriptor cannot be polled.
Task<> until_readable(Engine& engine, int descriptor);

/// The same for writing.
Task<> until_writable(Engine& engine, int descriptor);

/// From now on reading and writing the descriptor answer EAGAIN where they would block, for everybody who has
/// it. Throws SystemError, with what it is.
void set_nonblocking(int descriptor, std::string_view what);

}  // namespace cohort
