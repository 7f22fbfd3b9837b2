// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/net/transport.h>
#include <cohort/net/verbs/device.h>
#include <cohort/net/verbs/verbs_stream.h>

#include <memory>

namespace cohort::verbs {

/// RDMA between ranks whose devices are on one network, over reliable connections of libibverbs that are set
/// up over authenticated TCP connections.
[[nodiscard]] TransportKind transport_kind() noexcept;

/// What a communicator has of it, on that device; null for a group, whose root has one. `locked_memory`: how
/// much this process may lock.
[[nodiscard]] std::unique_ptr<Transport> make_transport(const TransportUse& use,
                                                        std::unique_ptr<Device> device,
                                                        std::size_t locked_memory);

/// The one of this host that is used. Throws Unsupported or ResourceLimit, with what to do.
[[nodiscard]] std::unique_ptr<Device> open_device_of_this_host();

/// Tells each other over that connection where the ends are, connects them, and then says that both are
/// ready. Throws LinkFault, ProtocolError.
Task<> agree(VerbsStream& stream, Socket& socket);

}  // namespace cohort::verbs
