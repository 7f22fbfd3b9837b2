// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/tcp_transport.h>

#include <cohort/engine/tuning.h>
#include <cohort/net/data_connections.h>
#include <cohort/net/framed/framed_transport.h>
#include <cohort/net/host/core_pages.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/net/tcp/tcp_link.h>

#include <utility>

namespace cohort::tcp {
namespace {

/// A group has connections of its own, made when they are first used: in one stream, a frame whose
/// collective has not begun here would hold up those of other groups behind it, and ranks that begin two
/// groups' collectives in different orders would wait for each other for ever.
class TcpTransport final : public framed::FramedTransport {
 public:
  explicit TcpTransport(const TransportUse& use) : FramedTransport(use), cores_(use.engine, use.membership) {}

  [[nodiscard]] Introduction introduce(Rank peer) const override {
    return {.words = {}, .descriptors = cores_.descriptors_for(peer)};
  }
  void meet(Rank peer, std::string_view, std::vector<Descriptor> descriptors) override {
    cores_.adopt(peer, std::move(descriptors));
  }

 private:
  [[nodiscard]] Task<std::unique_ptr<framed::FramedLink>> make_link(Rank peer, Lane lane) override {
    Socket socket = co_await use().connections.open(peer, lane);
    if (use().membership.shares_host(peer)) socket.set_buffer_bytes(tuning::sockets::kBufferInHost);
    co_return std::make_unique<TcpLink>(use().engine, std::move(socket), use().host, use().membership.rank,
                                        peer, lane);
  }
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> call_for_packets(Rank peer) override {
    return open_stream(use().connections.call(peer, kMessageLane));
  }
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> wait_for_packets(Rank peer) override {
    return open_stream(use().connections.wait_for_call(peer, kMessageLane));
  }

  mutable host::CorePages cores_;
};

}  // namespace

TransportKind transport_kind() noexcept {
  return {.name = "tcp",
          .can = {},
          .reaches = [](const Membership&, Rank) { return true; },
          .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
            return std::make_unique<TcpTransport>(use);
          }};
}

}  // namespace cohort::tcp
