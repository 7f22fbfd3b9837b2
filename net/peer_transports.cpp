// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/peer_transports.h>

#include <cohort/engine/assert.h>
#include <cohort/net/connections.h>
#include <cohort/net/transport_list.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

std::string why_not(const Membership& membership, const PeerTransports::Choice& choice, Rank peer) {
  const auto kind = std::ranges::find(choice.kinds, choice.asked, &TransportKind::name);
  if (kind != choice.kinds.end() && kind->why_not != nullptr) return kind->why_not(membership, peer);
  return fmt::format("the {} ranks of '{}' are on several hosts (or in several network namespaces)",
                     membership.size, membership.name);
}

Error not_reached(const Membership& membership, const PeerTransports::Choice& choice, Rank peer) {
  if (choice.asked.empty())
    return Error(ErrorKind::Unsupported,
                 fmt::format("none of the transports ({}) connects rank {} with {}", names_of(choice.kinds),
                             membership.rank, membership.peers[peer].describe()))
        .with_culprit(peer);
  const std::string what = peer == membership.rank
                               ? fmt::format("rank {} cannot use it", membership.rank)
                               : fmt::format("it does not connect rank {} with {}", membership.rank,
                                             membership.peers[peer].describe());
  return Error(
      ErrorKind::Unsupported,
      fmt::format("transport {} was asked for, but {}: {}; use another one, or leave the choice to cohort",
                  choice.asked, what, why_not(membership, choice, peer)));
}

using SaidOfHost = PeerTransports::SaidOfHost;

/// All ranks come to the same verdict, the culprit too.
void check_bandwidths(const Membership& membership, std::span<const SaidOfHost> said) {
  const auto refuse = [&](std::string_view where, Rank culprit, Rank other) {
    throw Error(ErrorKind::Mismatch,
                fmt::format("bandwidth of a host's network differs{}: {} has {}, rank {} has {}; give all "
                            "ranks of a host the same COHORT_HOST_BANDWIDTH, and all hosts theirs, or none",
                            where, membership.peers[culprit].describe(), said[culprit].bandwidth, other,
                            said[other].bandwidth))
        .with_culprit(culprit);
  };
  const auto none = std::ranges::find(said, 0U, &SaidOfHost::bandwidth);
  const auto some = std::ranges::find_if(said, [](const SaidOfHost& one) { return one.bandwidth != 0; });
  if (none != said.end() && some != said.end())
    refuse("", static_cast<Rank>(none - said.begin()), static_cast<Rank>(some - said.begin()));
  for (Rank rank = 0; rank < membership.size; ++rank)
    if (said[rank].bandwidth != said[said[rank].first].bandwidth)
      refuse(" on one host", rank, said[rank].first);
}

}  // namespace

void PeerTransports::Choice::check() const {
  const auto is_asked = [&](const TransportKind& kind) { return kind.name == asked; };
  if (!asked.empty() && std::none_of(kinds.begin(), kinds.end(), is_asked))
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("transport '{}' (COHORT_TRANSPORT) is none of {}", asked, names_of(kinds)));
  if (host_bandwidth > kMostHostBandwidth)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("a host's network has a bandwidth of {} (COHORT_HOST_BANDWIDTH); give at most {}, in "
                    "a unit that all hosts share",
                    host_bandwidth, kMostHostBandwidth));
  if (tcp_connections > kMostConnectionsOfLane)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("a link over TCP has {} connections (COHORT_TCP_CONNECTIONS); give 1 to {}, or auto",
                    tcp_connections, kMostConnectionsOfLane));
}

std::uint64_t PeerTransports::Choice::fabric(Engine& engine) const {
  if (!engine.platform().has_devices()) return 0;
  for (const TransportKind& kind : kinds)
    if (kind.fabric != nullptr && (asked.empty() || kind.name == asked)) return kind.fabric();
  return 0;
}

PeerTransports::PeerTransports(Engine& engine, Membership& membership, LinkOwner& host, const Choice& choice,
                               const Within* within)
    : hosts_per_switch_(choice.hosts_per_switch),
      tcp_connections_(choice.tcp_connections),
      host_bandwidth_(choice.host_bandwidth),
      hosts_(within == nullptr ? Hosts::apart(membership.size)
                               : within->root.hosts_.among(within->place.ranks)),
      connections_(engine, membership, within == nullptr ? nullptr : &within->root.connections_,
                   within == nullptr ? nullptr : &within->place),
      of_peer_(membership.size, nullptr) {
  using host::HostGroup;
  choose(membership, choice);
  if (shares_memory() && within == nullptr)
    group_ = std::make_unique<HostGroup>(engine, membership, ranks_of_host_, choice.buffer_bytes,
                                         choice.heap_bytes, choice.is_isolated);
  else if (shares_memory() && within->root.group_ != nullptr)
    group_ = std::make_unique<HostGroup>(engine, membership, ranks_of_host_, choice.buffer_bytes,
                                         HostGroup::Regions{*within->root.group_, within->place.ranks,
                                                            within->place.regions, choice.is_isolated});
  TransportUse use{engine, membership, host, connections_};
  use.tcp_connections = tcp_connections_;
  if (within != nullptr) use.place = &within->place;
  make_all(choice, use, within == nullptr ? nullptr : &within->root);
}

/// Alone, it shares with itself.
bool PeerTransports::shares_memory() const noexcept {
  const bool is_alone = kind_of_.size() == 1;
  return ranks_of_host_.size() > 1 || (is_alone && kind_of_[0]->can.maps_memory);
}

void PeerTransports::make_all(const Choice& choice, TransportUse use, PeerTransports* root) {
  for (const TransportKind& kind : choice.kinds) {
    Transport* transport = nullptr;
    for (Rank peer = 0; peer < kind_of_.size(); ++peer) {
      if (peer == use.membership.rank || kind_of_[peer] != &kind) continue;
      if (transport == nullptr) {
        use.group = kind.can.maps_memory ? group_.get() : nullptr;
        use.root = root == nullptr ? nullptr : &root->to(use.place->ranks[peer]);
        transport = made_.emplace_back(kind.make(use)).get();
        if (transport->hears_of_collectives()) hearing_.push_back(transport);
      }
      of_peer_[peer] = transport;
    }
  }
}

PeerTransports::~PeerTransports() = default;

void PeerTransports::choose(const Membership& membership, const Choice& choice) {
  choice.check();
  for (Rank peer = 0; peer < membership.size; ++peer) {
    const auto found = std::find_if(choice.kinds.begin(), choice.kinds.end(), [&](const TransportKind& kind) {
      return (choice.asked.empty() || kind.name == choice.asked) && kind.reaches(membership, peer);
    });
    if (found == choice.kinds.end()) throw not_reached(membership, choice, peer);
    kind_of_.push_back(&*found);
    if (peer == membership.rank || found->can.maps_memory) ranks_of_host_.push_back(peer);
  }
  name_choice(membership, choice);
}

void PeerTransports::name_choice(const Membership& membership, const Choice& choice) {
  for (const TransportKind& kind : choice.kinds) {
    bool is_used = false;
    for (Rank peer = 0; peer < membership.size; ++peer)
      is_used |= kind_of_[peer] == &kind && (peer != membership.rank || membership.size == 1);
    if (is_used) name_.append(name_.empty() ? "" : "+").append(kind.name);
  }
}

void PeerTransports::check_first(const Membership& membership, std::span<const SaidOfHost> said,
                                 Rank peer) const {
  const Rank own = ranks_of_host_.front();
  const Rank first = said[peer].first;
  const bool is_here = std::binary_search(ranks_of_host_.begin(), ranks_of_host_.end(), peer);
  if (first <= peer && said[first].first == first && is_here == (first == own)) return;
  throw Error(ErrorKind::Mismatch,
              fmt::format("{} says that its host's first rank is {}, but rank {}, whose host's first rank is "
                          "{}, {} memory with it; give all ranks the same COHORT_TRANSPORT",
                          membership.peers[peer].describe(), first, membership.rank, own,
                          is_here ? "shares" : "does not share"))
      .with_culprit(peer);
}

void PeerTransports::learn_hosts(const Membership& membership, std::span<const SaidOfHost> said) {
  for (Rank peer = 0; peer < membership.size; ++peer) check_first(membership, said, peer);
  check_bandwidths(membership, said);
  std::vector<Rank> first_of_host;
  for (const SaidOfHost& one : said) first_of_host.push_back(one.first);
  hosts_ = Hosts(first_of_host).below_switches(hosts_per_switch_);
  if (host_bandwidth_ == 0) return;
  std::vector<std::uint32_t> bandwidths;
  for (Rank host = 0; host < hosts_.count(); ++host)
    bandwidths.push_back(said[hosts_.first_of(host)].bandwidth);
  hosts_ = hosts_.with_bandwidths(bandwidths);
}

Capabilities PeerTransports::common_capabilities() const noexcept {
  if (made_.empty()) return kind_of_.front()->can;
  Capabilities common{.maps_memory = true, .reads_memory = true};
  for (std::size_t peer = 0; peer < kind_of_.size(); ++peer)
    if (of_peer_[peer] != nullptr) common = common & kind_of_[peer]->can;
  return common;
}

Transport& PeerTransports::to(Rank peer) noexcept {
  Transport* const transport = of_peer_[peer];
  COHORT_ASSERT(transport != nullptr, "rank {} needs no transport to itself", peer);
  return *transport;
}

void PeerTransports::register_memory(std::span<std::byte> memory) {
  for (const auto& transport : made_) transport->register_memory(memory);
}

void PeerTransports::forget_memory(const std::byte* memory) noexcept {
  for (const auto& transport : made_) transport->forget_memory(memory);
}

void PeerTransports::start(TaskScope& services) {
  for (const auto& transport : made_) transport->start(services);
}

void PeerTransports::use_connections(unsigned spread_over, unsigned made) noexcept {
  for (const auto& transport : made_) transport->use_connections(spread_over, made);
}

bool PeerTransports::is_cut_off(Rank peer) const noexcept {
  return of_peer_[peer] != nullptr && of_peer_[peer]->is_cut_off(peer);
}

Task<> PeerTransports::until_sent() {
  for (const auto& transport : made_) co_await transport->until_sent();
}

void PeerTransports::shutdown() noexcept {
  connections_.shutdown();
  for (const auto& transport : made_) transport->shutdown();
}

}  // namespace cohort
