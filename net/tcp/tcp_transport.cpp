// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/tcp/tcp_transport.h>

#include <cohort/engine/assert.h>
#include <cohort/net/tcp/data_connection.h>
#include <cohort/net/tcp/tcp_link.h>

#include <algorithm>

namespace cohort::tcp {
namespace {

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportUse& use)
      : engine_(use.engine), membership_(use.membership), host_(use.host), acceptor_(use.membership) {}

  void start(TaskScope& services) override {
    services_ = &services;
    services.spawn(acceptor_.serve());
  }

  /// The higher rank connects, the lower one accepts: both run the same schedule, so both come here.
  [[nodiscard]] Task<std::unique_ptr<Link>> connect(Rank peer, Lane lane) override {
    COHORT_ASSERT(services_ != nullptr, "a connection to rank {} before start()", peer);
    Socket socket;
    if (membership_.rank > peer)
      socket = co_await connect_data(engine_, membership_, peer, lane);
    else
      socket = co_await acceptor_.take(peer, lane);
    auto link = std::make_unique<TcpLink>(engine_, std::move(socket), host_, membership_.rank, peer, lane);
    links_.push_back(link.get());
    services_->spawn(link->serve());
    co_return link;
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
  }

 private:
  Engine& engine_;
  Membership& membership_;
  LinkHost& host_;
  DataAcceptor acceptor_;
  TaskScope* services_ = nullptr;
  std::vector<TcpLink*> links_;
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
