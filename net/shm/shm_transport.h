// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/transport.h>

namespace cohort::shm {

/// Shared memory between ranks of one host, over their host's group.
[[nodiscard]] TransportKind transport_kind() noexcept;

}  // namespace cohort::shm
