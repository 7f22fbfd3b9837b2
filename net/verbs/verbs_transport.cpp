// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/verbs_transport.h>

#include <cohort/engine/log.h>
#include <cohort/engine/system/locked_memory.h>
#include <cohort/net/framed/framed_transport.h>
#include <cohort/net/framed/upgrading_stream.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/net/verbs/verbs_stream.h>

#include <fmt/format.h>

#include <array>
#include <new>
#include <string>
#include <utility>

namespace cohort::verbs {
namespace {

Task<bool> exchange(Socket& socket, std::span<const std::byte> own, std::span<std::byte> theirs) {
  co_await socket.send(own);
  co_return co_await socket.receive(theirs);
}

/// A socket that ends, in order or not, is the peer's doing.
Task<> swap(Socket& socket, std::span<const std::byte> own, std::span<std::byte> theirs) {
  std::string how;
  try {
    const bool has_come = co_await exchange(socket, own, theirs);
    if (has_come) co_return;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::SystemError) throw;
    how = fmt::format(" ({})", error.message());
  }
  throw Error(ErrorKind::LinkFault,
              fmt::format("it gave up while the connection was set up{}; its own error says why", how));
}

/// A group has queue pairs of its own, for the reason that it has connections of its own over TCP; the device
/// is the root's.
class VerbsTransport final : public framed::FramedTransport {
 public:
  VerbsTransport(const TransportUse& use, std::unique_ptr<Device> device, std::size_t locked_memory)
      : FramedTransport(use),
        own_device_(std::move(device)),
        root_(own_device_ ? *this : *static_cast<VerbsTransport*>(use.root)),
        device_(own_device_ ? *own_device_ : root_.device_),
        most_for_packets_(locked_memory / kShareOfPackets / kBytesOfConnection) {}
  ~VerbsTransport() override { root_.for_packets_ -= for_own_packets_; }

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
    std::unique_ptr<VerbsStream> stream = co_await open_stream(peer, lane);
    co_return std::make_unique<framed::FramedLink>(use().engine, std::move(stream), use().host,
                                                   use().membership.rank, peer, lane, "verbs");
  }
  Task<std::unique_ptr<VerbsStream>> open_stream(Rank peer, Lane lane) {
    Socket socket;  // ends after the peer, which may wait on it, was told
    try {
      Socket opened = co_await use().connections.open(peer, lane);
      socket = std::move(opened);
      std::unique_ptr<VerbsStream> stream = co_await connect_stream(peer, socket);
      co_return stream;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::LinkFault) use().host.gives_up(peer);  // else it was not this rank
      throw;
    } catch (...) {
      use().host.gives_up(peer);
      throw;
    }
  }

  [[nodiscard]] std::unique_ptr<framed::BulkStream> make_bulk(Rank peer) override {
    return std::make_unique<framed::BulkStream>(use().engine, use().host, use().membership.rank, peer,
                                                [this, peer] { return open_bulk(peer); });
  }
  Task<std::unique_ptr<framed::ByteStream>> open_bulk(Rank peer) {
    std::unique_ptr<VerbsStream> stream = co_await open_stream(peer, kBulkLane);
    co_return stream;
  }

  // Small messages are sent before the peer receives any, and only TCP takes them while nothing there
  // answers. Who receives has the connection made on which they go on.
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> call_for_packets(Rank peer) override {
    auto first = co_await tcp::open_stream(use().connections.call(peer, kMessageLane));
    const auto second = [this, peer] {
      return open_second(peer, use().connections.wait_for_call(peer, kUpgradeLane));
    };
    co_return std::make_unique<framed::UpgradingSender>(std::move(first), second);
  }
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> wait_for_packets(Rank peer) override {
    auto first = co_await tcp::open_stream(use().connections.wait_for_call(peer, kMessageLane));
    const auto second = [this, peer] {
      return open_second(peer, use().connections.call(peer, kUpgradeLane));
    };
    co_return std::make_unique<framed::UpgradingReceiver>(std::move(first), second);
  }
  /// Null, with a line in the log, where packets have to stay on TCP; at both ends, since the other one hears
  /// that this one gave up.
  Task<std::unique_ptr<framed::ByteStream>> open_second(Rank peer, Task<Socket> connecting) {
    const CancelScope* const scope = co_await current_scope();
    Share share(*this);
    try {
      Socket socket = co_await connecting;
      share.take();
      std::unique_ptr<VerbsStream> stream = co_await connect_stream(peer, socket, LargePieces::copied);
      share.keep();
      log(LogLevel::info, "{}: small messages go on by RDMA", use().membership.peers[peer].describe());
      co_return stream;
    } catch (const Error& error) {
      if (scope != nullptr && scope->is_cancelled()) throw;
      const bool is_news = is_own_fault(error.kind()) && !std::exchange(root_.has_warned_, true);
      log(is_news ? LogLevel::warn : LogLevel::info, "small messages stay on TCP: {}", error.message());
    } catch (const std::bad_alloc&) {
      log(LogLevel::warn, "small messages stay on TCP: there is no memory for a connection");
    }
    co_return nullptr;
  }

  /// One connection of those that packets may have, until the transport ends.
  class Share : cohort::Immovable {
   public:
    explicit Share(VerbsTransport& of) noexcept : of_(of) {}
    ~Share() { of_.root_.for_packets_ -= taken_; }

    /// Throws ResourceLimit.
    void take() {
      if (of_.root_.for_packets_ >= of_.root_.most_for_packets_)
        throw Error(
            ErrorKind::ResourceLimit,
            "by RDMA they would take more than a quarter of the memory that this process may lock, which "
            "links need: raise the limit (ulimit -l unlimited; LimitMEMLOCK of a service)");
      taken_ = 1;
      ++of_.root_.for_packets_;
    }
    void keep() noexcept { of_.for_own_packets_ += std::exchange(taken_, 0); }

   private:
    VerbsTransport& of_;
    std::size_t taken_ = 0;
  };

  /// By what is said on that socket, which outlives the task.
  [[nodiscard]] Task<std::unique_ptr<VerbsStream>> connect_stream(Rank peer, Socket& socket,
                                                                  LargePieces large = LargePieces::lent) {
    const CancelScope* const scope = co_await current_scope();
    try {
      auto stream = std::make_unique<VerbsStream>(use().engine, device_, peer, large);
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

  /// Of what may be locked packets take at most that part, since they have TCP, too, and links have not.
  static constexpr std::size_t kShareOfPackets = 4;
  static constexpr std::size_t kBytesOfConnection = 2 * kRegionBytes + kBounceBytes;

  const std::unique_ptr<Device> own_device_;  ///< the root's
  VerbsTransport& root_;                      ///< may be this one
  Device& device_;
  // Connections:
  const std::size_t most_for_packets_;  ///< the root's: its own and its groups'
  std::size_t for_packets_ = 0;         ///< the root's: that were made, all together
  std::size_t for_own_packets_ = 0;     ///< of these, this one's
  bool has_warned_ = false;             ///< that small messages stay on TCP
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
  std::array<std::byte, EndPoint::kBytes> theirs{};
  co_await swap(socket, own, theirs);
  stream.connect(decode(theirs));
  constexpr std::array kReady = {std::byte{1}};
  std::array<std::byte, 1> ready{};
  co_await swap(socket, kReady, ready);
}

std::unique_ptr<Transport> make_transport(const TransportUse& use, std::unique_ptr<Device> device,
                                          std::size_t locked_memory) {
  return std::make_unique<VerbsTransport>(use, std::move(device), locked_memory);
}

TransportKind transport_kind() noexcept {
  return {.name = "verbs",
          .can = {},
          .reaches = reaches,
          .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
            return make_transport(use, use.root == nullptr ? open_device_of_this_host() : nullptr,
                                  locked_memory_limit());
          },
          .why_not = why_not,
          .fabric = fabric,
          .describe = describe};
}

}  // namespace cohort::verbs
