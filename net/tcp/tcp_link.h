// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>
#include <cohort/net/framed/framed_link.h>

namespace cohort::tcp {

/// A framed link over one TCP connection.
class TcpLink final : public framed::FramedLink {
 public:
  TcpLink(Engine& engine, Socket socket, LinkOwner& host, Rank self, Rank peer, Lane lane,
          std::size_t piece_bytes = tuning::sockets::kPiece);
};

}  // namespace cohort::tcp
