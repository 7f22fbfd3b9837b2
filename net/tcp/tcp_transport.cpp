// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/tcp_transport.h>

#include <cohort/engine/tuning.h>
#include <cohort/net/connections.h>
#include <cohort/net/data_connections.h>
#include <cohort/net/framed/framed_transport.h>
#include <cohort/net/host/core_pages.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/net/tcp/striped_stream.h>
#include <cohort/net/tcp/tcp_link.h>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cohort::tcp {
namespace {

/// A group has connections of its own, made when they are first used: in one stream, a frame whose
/// collective has not begun here would hold up those of other groups behind it, and ranks that begin two
/// groups' collectives in different orders would wait for each other for ever.
class TcpTransport final : public framed::FramedTransport {
 public:
  explicit TcpTransport(const TransportUse& use)
      : FramedTransport(use),
        root_(static_cast<const TcpTransport*>(use.root)),
        chosen_(root_ == nullptr ? use.tcp_connections : root_->chosen_),
        cores_(use.engine, use.membership) {
    if (chosen_ != kMeasuredConnections) made_ = used_ = chosen_;
    if (root_ != nullptr) made_ = used_ = root_->used_;
  }

  [[nodiscard]] Introduction introduce(Rank peer) const override {
    return {.words = words_of_connections(), .descriptors = cores_.descriptors_for(peer)};
  }
  void meet(Rank peer, std::string_view words, std::vector<Descriptor> descriptors) override {
    check_connections(peer, words);
    cores_.adopt(peer, std::move(descriptors));
  }
  void use_connections(unsigned spread_over, unsigned made) noexcept override {
    if (chosen_ != kMeasuredConnections) return;
    used_ = spread_over;
    made_ = made;
    for (StripedStream* stream : of_links_) stream->spread_over(spread_over);
  }

 private:
  [[nodiscard]] std::string words_of_connections() const {
    return chosen_ == kMeasuredConnections ? "auto" : fmt::format("{}", chosen_);
  }
  void check_connections(Rank peer, std::string_view theirs) const {
    if (theirs == words_of_connections()) return;
    throw Error(ErrorKind::Mismatch,
                fmt::format("number of connections of a link over TCP differs: {} has {}, rank {} has {}; "
                            "give all ranks the same COHORT_TCP_CONNECTIONS",
                            use().membership.peers[peer].describe(), theirs, use().membership.rank,
                            words_of_connections()))
        .with_culprit(peer);
  }
  /// Inside of a host one is as fast as its two ends.
  [[nodiscard]] bool is_striped(Rank peer) const { return made_ > 1 && !use().membership.shares_host(peer); }
  /// Over all connections of a lane, which are made one after the other: a peer that many ranks call has
  /// room for few that have not proven who they are.
  Task<std::unique_ptr<StripedStream>> open_striped(Rank peer, Lane lane) {
    std::vector<std::unique_ptr<framed::ByteStream>> streams;
    const unsigned connections = made_;
    for (unsigned i = 0; i < connections; ++i) {
      Task<Socket> opening = use().connections.open(peer, lane_of_connection(lane, i));
      std::unique_ptr<framed::ByteStream> stream = co_await open_stream(std::move(opening));
      streams.push_back(std::move(stream));
    }
    co_return std::make_unique<StripedStream>(std::move(streams), used_);
  }
  Task<std::unique_ptr<framed::ByteStream>> open_for_bulk(Rank peer) {
    std::unique_ptr<StripedStream> stream = co_await open_striped(peer, kBulkLane);
    co_return stream;
  }

  [[nodiscard]] Task<std::unique_ptr<framed::FramedLink>> make_link(Rank peer, Lane lane) override {
    if (is_striped(peer)) {
      std::unique_ptr<StripedStream> stream = co_await open_striped(peer, lane);
      of_links_.push_back(stream.get());
      co_return std::make_unique<framed::FramedLink>(use().engine, std::move(stream), use().host,
                                                     use().membership.rank, peer, lane, "tcp");
    }
    Socket socket = co_await use().connections.open(peer, lane);
    if (use().membership.shares_host(peer)) socket.set_buffer_bytes(tuning::sockets::kBufferInHost);
    const Rank of_job = use().membership.peers[peer].world_rank.value_or(peer);
    co_return std::make_unique<TcpLink>(use().engine, std::move(socket), use().host, use().membership.rank,
                                        peer, lane, piece_bytes_to(job(), of_job));
  }
  [[nodiscard]] const Membership& job() const {
    return root_ == nullptr ? use().membership : root_->use().membership;
  }
  /// Packets go over one connection. Both ends make this by what was chosen, before or after it is measured.
  [[nodiscard]] std::unique_ptr<framed::BulkStream> make_bulk(Rank peer) override {
    if (chosen_ == 1 || use().membership.shares_host(peer)) return nullptr;
    return std::make_unique<framed::BulkStream>(use().engine, use().host, use().membership.rank, peer,
                                                [this, peer] { return open_for_bulk(peer); });
  }
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> call_for_packets(Rank peer) override {
    return open_stream(use().connections.call(peer, kMessageLane));
  }
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> wait_for_packets(Rank peer) override {
    return open_stream(use().connections.wait_for_call(peer, kMessageLane));
  }

  const TcpTransport* const root_;  ///< of a group
  const unsigned chosen_;           ///< connections of a lane to another host, or kMeasuredConnections
  unsigned made_ = 1;
  unsigned used_ = 1;
  std::vector<StripedStream*> of_links_;
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
