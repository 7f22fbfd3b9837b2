// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>

namespace cohort {

/// Suspends until reading from the descriptor would not block: there are bytes, or its end, or an error to be
/// read. For pidfds: until the process has ended. Throws SystemError when the descriptor cannot be polled.
Task<> until_readable(Engine& engine, int descriptor);

/// The same for writing.
Task<> until_writable(Engine& engine, int descriptor);

}  // namespace cohort
