// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/tcp_link.h>

#include <cohort/net/tcp/socket_stream.h>

namespace cohort::tcp {

std::size_t piece_bytes_to(const Membership& job, Rank peer) {
  const bool moves_both_ways_at_once = !job.shares_host(peer) && job.engines_per_core() <= 1;
  return moves_both_ways_at_once ? tuning::sockets::kPieceBetweenHosts : tuning::sockets::kPiece;
}

TcpLink::TcpLink(Engine& engine, Socket socket, LinkOwner& host, Rank self, Rank peer, Lane lane,
                 std::size_t piece_bytes)
    : FramedLink(engine, std::make_unique<SocketStream>(std::move(socket), piece_bytes), host, self, peer,
                 lane, "tcp") {}

}  // namespace cohort::tcp
