// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/transport.h>
#include <cohort/net/verbs/device.h>

#include <memory>

namespace cohort::verbs {

/// RDMA between ranks whose devices are on one network, over reliable connections of libibverbs that are set
/// up over authenticated TCP connections.
[[nodiscard]] TransportKind transport_kind() noexcept;

/// What a communicator has of it, on that device; null for a group, whose root has one.
[[nodiscard]] std::unique_ptr<Transport> make_transport(const TransportUse& use,
                                                        std::unique_ptr<Device> device);

}  // namespace cohort::verbs
