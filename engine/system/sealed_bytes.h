// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>

#include <cstddef>
#include <span>

namespace cohort {

/// A nameless file in memory that holds these bytes and can never change: for handing a secret to a program
/// by descriptor. Close-on-exec here, never one of the numbers 0 to 2. Throws ResourceLimit or SystemError.
[[nodiscard]] Descriptor make_sealed_bytes(std::span<const std::byte> bytes);

}  // namespace cohort
