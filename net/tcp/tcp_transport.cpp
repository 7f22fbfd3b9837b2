// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/tcp_transport.h>

#include <cohort/engine/assert.h>
#include <cohort/net/tcp/data_connection.h>
#include <cohort/net/tcp/tcp_letters.h>
#include <cohort/net/tcp/tcp_link.h>

#include <algorithm>
#include <optional>

namespace cohort::tcp {
namespace {

/// A group has connections of its own, made when they are first used: in one stream, a frame whose
/// collective has not begun here would hold up those of other groups behind it, and ranks that begin two
/// groups' collectives in different orders would wait for each other for ever. The listener is the root's.
class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportUse& use)
      : engine_(use.engine),
        membership_(use.membership),
        host_(use.host),
        root_(use.root == nullptr ? nullptr : static_cast<TcpTransport*>(use.root)),
        place_(use.place) {
    if (root_ == nullptr) acceptor_.emplace(use.membership);
  }
  ~TcpTransport() override {
    if (root_ == nullptr) return;
    for (Rank peer = 0; peer < membership_.size; ++peer)
      for (Lane lane = 0; lane < kPathsOfGroup; ++lane)
        root_->acceptor_->forget(rank_in_root(peer), path(peer, lane));
  }

  void start(TaskScope& services) override {
    services_ = &services;
    if (acceptor_) services.spawn(acceptor_->serve());
  }

  /// The higher rank connects, the lower one accepts: both run the same schedule, so both come here.
  [[nodiscard]] Task<std::unique_ptr<Link>> connect(Rank peer, Lane lane) override {
    COHORT_ASSERT(services_ != nullptr, "a connection to rank {} before start()", peer);
    Task<Socket> connecting = membership_.rank > peer ? call(peer, lane) : wait_for_call(peer, lane);
    Socket socket = co_await connecting;
    auto link = std::make_unique<TcpLink>(engine_, std::move(socket), host_, membership_.rank, peer, lane);
    links_.push_back(link.get());
    services_->spawn(link->serve());
    co_return link;
  }

  [[nodiscard]] std::unique_ptr<LetterChannel> open_letters(Rank peer, LetterHandler& handler,
                                                            TaskScope& services) override {
    auto channel = std::make_unique<TcpLetters>(
        host_, handler, services, peer, [this, peer] { return call(peer, kMessageLane); },
        [this, peer] { return wait_for_call(peer, kMessageLane); });
    letters_.push_back(channel.get());
    return channel;
  }

  [[nodiscard]] bool hears_of_collectives() const noexcept override { return true; }
  void collective_started() noexcept override {
    for (TcpLink* link : links_) link->operation_started();
  }
  [[nodiscard]] bool is_cut_off(Rank peer) const noexcept override {
    return std::any_of(links_.begin(), links_.end(),
                       [peer](const TcpLink* link) { return link->peer() == peer && link->is_cut_off(); });
  }
  void shutdown() noexcept override {
    for (TcpLink* link : links_) link->shutdown();
    for (TcpLetters* letters : letters_) letters->shutdown();
  }

 private:
  Task<Socket> call(Rank peer, Lane lane) {
    const Membership& joined = root().membership_;
    try {
      co_return co_await connect_data(engine_, joined, rank_in_root(peer), path(membership_.rank, lane));
    } catch (const Error& error) {
      throw error.culprit() ? error.with_culprit(peer) : error;
    }
  }
  Task<Socket> wait_for_call(Rank peer, Lane lane) {
    return root().acceptor_->take(rank_in_root(peer), path(peer, lane));
  }
  [[nodiscard]] TcpTransport& root() noexcept { return root_ == nullptr ? *this : *root_; }
  [[nodiscard]] Rank rank_in_root(Rank rank) const noexcept {
    return place_ == nullptr ? rank : place_->ranks[rank];
  }
  /// As the rank that connects numbers it.
  [[nodiscard]] Path path(Rank connecting, Lane lane) const noexcept {
    return path_of(place_ == nullptr ? GroupNumber{0} : place_->numbers[connecting], lane);
  }

  Engine& engine_;
  Membership& membership_;
  LinkHost& host_;
  TcpTransport* const root_;              ///< null: this is it
  const GroupPlace* const place_;         ///< of a group
  std::optional<DataAcceptor> acceptor_;  ///< the root's
  TaskScope* services_ = nullptr;
  std::vector<TcpLink*> links_;
  std::vector<TcpLetters*> letters_;
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
