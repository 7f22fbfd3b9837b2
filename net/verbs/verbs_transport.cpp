// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/verbs_transport.h>

#include <cohort/net/framed/framed_transport.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/net/verbs/verbs_stream.h>

#include <fmt/format.h>

#include <array>
#include <utility>

namespace cohort::verbs {
namespace {

Task<> hear(Socket& socket, std::span<std::byte> into) {
  const bool has_come = co_await socket.receive(into);
  if (!has_come)
    throw Error(ErrorKind::LinkFault, "it gave up while the connection was set up; its own error says why");
}

/// A group has queue pairs of its own, for the reason that it has connections of its own over TCP; the device
/// is the root's.
class VerbsTransport final : public framed::FramedTransport {
 public:
  VerbsTransport(const TransportUse& use, std::unique_ptr<Device> device)
      : FramedTransport(use),
        own_device_(std::move(device)),
        device_(own_device_ ? *own_device_ : static_cast<VerbsTransport*>(use.root)->device_) {}

  void start(TaskScope& services) override {
    FramedTransport::start(services);
    if (!own_device_) return;
    services.spawn(device_.watch_completions(use().engine));
    services.spawn(device_.watch_events(use().engine));
    services.spawn(device_.watch_port(use().engine));
  }
  void register_memory(std::span<std::byte> memory) override { device_.regions().declare(memory); }
  void forget_memory(const std::byte* memory) noexcept override { device_.regions().forget(memory); }

 private:
  [[nodiscard]] Task<std::unique_ptr<framed::FramedLink>> make_link(Rank peer, Lane lane) override {
    std::unique_ptr<framed::ByteStream> stream = co_await connect_stream(peer, lane);
    co_return std::make_unique<framed::FramedLink>(use().engine, std::move(stream), use().host,
                                                   use().membership.rank, peer, lane, "verbs");
  }

  [[nodiscard]] std::unique_ptr<framed::BulkStream> make_bulk(Rank peer) override {
    return std::make_unique<framed::BulkStream>(use().engine, use().host, use().membership.rank, peer,
                                                [this, peer] { return connect_stream(peer, kBulkLane); });
  }
  /// Letters stay on TCP: small ones are sent before the peer receives any, and only TCP takes them while
  /// nothing at the peer answers.
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> open_stream(Rank,
                                                                      Task<Socket> connecting) override {
    return tcp::open_stream(std::move(connecting));
  }

  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> connect_stream(Rank peer, Lane lane) {
    Socket socket = co_await use().connections.open(peer, lane);
    const CancelScope* const scope = co_await current_scope();
    try {
      auto stream = std::make_unique<VerbsStream>(use().engine, device_, peer);
      co_await agree(*stream, socket);
      co_return stream;
    } catch (const Error& error) {
      if (scope != nullptr && scope->is_cancelled()) throw;
      const Error told(error.kind(), fmt::format("no RDMA connection to {}: {}",
                                                 use().membership.peers[peer].describe(), error.message()));
      const bool may_be_of_either = error.kind() == ErrorKind::SystemError;
      throw may_be_of_either ? told : blamed_on(told, use().membership.rank, peer);
    }
  }

  const std::unique_ptr<Device> own_device_;  ///< the root's
  Device& device_;
};

bool reaches(const Membership& membership, Rank peer) {
  const std::uint64_t fabric = membership.self().fabric;
  return fabric != 0 && fabric == membership.peers[peer].fabric;
}

std::string why_not(const Membership& membership, Rank peer) {
  const PeerInfo& other = membership.peers[peer];
  if (membership.self().fabric == 0) return port_of_this_host().why_not;
  if (other.fabric == 0)
    return fmt::format("{} has no RDMA device that can be used; with COHORT_DEBUG=info it says why",
                       other.describe());
  return fmt::format(
      "their RDMA devices are on different networks ({:#x} and {:#x}: InfiniBand subnet prefixes, or "
      "RoCE of different versions or address families); choose others with COHORT_IB_HCA and "
      "COHORT_IB_GID_INDEX",
      membership.self().fabric, other.fabric);
}

std::uint64_t fabric() {
  const Choice& choice = port_of_this_host();
  return choice.port ? choice.port->fabric() : 0;
}

std::string describe() { return port_of_this_host().describe(Settings::from_environment()); }

}  // namespace

std::unique_ptr<Device> open_device_of_this_host() {
  std::string why_not;
  const Library* const library = installed_library(why_not);
  const Choice& choice = port_of_this_host();
  if (library == nullptr || !choice.port)
    throw Error(ErrorKind::Unsupported, fmt::format("no RDMA: {}{}", why_not, choice.why_not));
  return std::make_unique<Device>(*library, *choice.port, Settings::from_environment());
}

Task<> agree(VerbsStream& stream, Socket& socket) {
  const auto own = encode(stream.end_point());
  co_await socket.send(own);
  std::array<std::byte, EndPoint::kBytes> theirs{};
  co_await hear(socket, theirs);
  stream.connect(decode(theirs));
  constexpr std::array kReady = {std::byte{1}};
  co_await socket.send(kReady);
  std::array<std::byte, 1> ready{};
  co_await hear(socket, ready);
}

std::unique_ptr<Transport> make_transport(const TransportUse& use, std::unique_ptr<Device> device) {
  return std::make_unique<VerbsTransport>(use, std::move(device));
}

TransportKind transport_kind() noexcept {
  return {.name = "verbs",
          .can = {},
          .reaches = reaches,
          .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
            return make_transport(use, use.root == nullptr ? open_device_of_this_host() : nullptr);
          },
          .why_not = why_not,
          .fabric = fabric,
          .describe = describe};
}

}  // namespace cohort::verbs
