// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/tcp_link.h>

#include <cohort/net/tcp/socket_stream.h>

namespace cohort::tcp {

TcpLink::TcpLink(Engine& engine, Socket socket, LinkOwner& host, Rank self, Rank peer, Lane lane,
                 std::size_t piece_bytes)
    : FramedLink(engine, std::make_unique<SocketStream>(std::move(socket), piece_bytes), host, self, peer,
                 lane, "tcp") {}

}  // namespace cohort::tcp
