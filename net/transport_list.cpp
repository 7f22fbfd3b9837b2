// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/transport_list.h>

#include <cohort/net/framed/frame.h>
#include <cohort/net/shm/shm_transport.h>
#include <cohort/net/tcp/tcp_transport.h>
#include <cohort/net/verbs/verbs_transport.h>

#include <array>

namespace cohort {

std::span<const TransportKind> transports() noexcept {
  static const std::array kKinds = {
      shm::transport_kind(),
      verbs::transport_kind(),
      tcp::transport_kind(),
  };
  return kKinds;
}

std::size_t stream_header_bytes() noexcept { return framed::kFrameBytes; }

std::string names_of(std::span<const TransportKind> kinds) {
  std::string names;
  for (const TransportKind& kind : kinds) names.append(names.empty() ? "" : ", ").append(kind.name);
  return names;
}

}  // namespace cohort
