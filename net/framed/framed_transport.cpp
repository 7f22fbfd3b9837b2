// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/framed_transport.h>

#include <cohort/engine/assert.h>

#include <algorithm>
#include <utility>

namespace cohort::framed {

void FramedTransport::start(TaskScope& services) {
  services_ = &services;
  use_.connections.start(services);
}

Task<std::unique_ptr<Link>> FramedTransport::connect(Rank peer, Lane lane) {
  COHORT_ASSERT(services_ != nullptr, "a connection to rank {} before start()", peer);
  std::unique_ptr<FramedLink> link = co_await make_link(peer, lane);
  links_.push_back(link.get());
  services_->spawn(link->serve());
  co_return link;
}

std::unique_ptr<PacketChannel> FramedTransport::open_packets(Rank peer, PacketHandler& handler,
                                                             TaskScope& services) {
  auto channel = std::make_unique<StreamPackets>(
      StreamPackets::Use{.engine = use_.engine,
                         .host = use_.host,
                         .handler = handler,
                         .services = services,
                         .own = use_.membership.rank,
                         .peer = peer,
                         .is_on_this_engine = use_.membership.shares_engine(peer),
                         .looked_at = looked_at_},
      [this, peer] { return call_for_packets(peer); }, [this, peer] { return wait_for_packets(peer); },
      make_bulk(peer));
  packets_.push_back(channel.get());
  return channel;
}

void FramedTransport::collective_started() noexcept {
  for (FramedLink* link : links_) link->operation_started();
}

bool FramedTransport::is_cut_off(Rank peer) const noexcept {
  return std::any_of(links_.begin(), links_.end(),
                     [peer](const FramedLink* link) { return link->peer() == peer && link->is_cut_off(); });
}

Task<> FramedTransport::until_sent() {
  // By number: while one is waited for, another may be made.
  for (std::size_t i = 0; i < links_.size(); ++i) co_await links_[i]->until_sent();
  for (std::size_t i = 0; i < packets_.size(); ++i) co_await packets_[i]->until_sent();
}

void FramedTransport::shutdown() noexcept {
  for (FramedLink* link : links_) link->shutdown();
  for (StreamPackets* packets : packets_) packets->shutdown();
}

}  // namespace cohort::framed
