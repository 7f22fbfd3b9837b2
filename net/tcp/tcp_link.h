// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/net/framed/framed_link.h>
#include <cohort/net/membership.h>

namespace cohort::tcp {

/// How much one send or receive of a link takes, by what all ranks of the job know of their cores.
[[nodiscard]] std::size_t piece_bytes_to(const Membership& job, Rank peer);

/// A framed link over one TCP connection.
class TcpLink final : public framed::FramedLink {
 public:
  TcpLink(Engine& engine, Socket socket, LinkOwner& host, Rank self, Rank peer, Lane lane,
          std::size_t piece_bytes);
};

}  // namespace cohort::tcp
