// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/transport.h>

namespace cohort::verbs {

/// RDMA between ranks whose devices are on one network, over reliable connections of libibverbs that are set
/// up over authenticated TCP connections.
[[nodiscard]] TransportKind transport_kind() noexcept;

}  // namespace cohort::verbs
