// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/transport.h>

namespace cohort::tcp {

/// An authenticated TCP connection for each link, to wherever the peer accepts them; to other hosts as many
/// as TransportUse says.
[[nodiscard]] TransportKind transport_kind() noexcept;

}  // namespace cohort::tcp
