// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/calibration/network_calibration.h>

#include <cohort/collectives/calibration/spread.h>
#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/operators/barrier.h>
#include <cohort/engine/log.h>
#include <cohort/net/connections.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace cohort {
namespace {

/// Of a large message, where CCL buffers have so many.
constexpr std::size_t kMostLargeBytes = std::size_t{256} << 10;
/// To see what a lane's connections carry: the larger, unless it is expected to take longer. Networks let
/// some through before they cap a flow, and what is over before a connection has found its rate tells of that
/// alone.
constexpr std::size_t kSpreadLarge = std::size_t{4} << 20;
constexpr std::size_t kSpreadLeast = std::size_t{1} << 20;
constexpr double kLongestOfConnectionsUs = 25'000;
/// So many times as fast several have to be, so often: whatever else runs may hold one up.
constexpr double kClearGain = 1.5;
constexpr int kTimesToWin = 2;
/// Once neighbours are connected, which calls need anyway.
constexpr Duration kMostForFigures = std::chrono::milliseconds(300);
/// What takes longer is measured once.
constexpr double kLongUs = 2000;

using Pairs = NetworkCalibration::Pairs;

/// With whom that rank measures.
template <Pairs kPairs>
std::optional<Rank> partner(const Hosts& hosts, Rank self) {
  for (Rank rank = 0; rank + 1 < hosts.ranks(); ++rank) {
    const bool share_host = hosts.host_of(rank) == hosts.host_of(rank + 1);
    if (share_host != kPairs.share_host) continue;
    if (self == rank) return rank + 1;
    if (self == rank + 1) return rank;
    if (kPairs.is_first_only) break;
    ++rank;  // the next one has its partner
  }
  return std::nullopt;
}

template <Pairs kPairs>
Task<> there_and_back(Exec& x, Barrier) {
  const std::optional<Rank> peer = partner<kPairs>(x.hosts(), x.rank());
  if (!peer) co_return;
  Link& link = x.link(*peer);
  if (x.rank() < *peer) co_await link.post(Signal::Ack);
  co_await link.wait(Signal::Ack);
  if (x.rank() > *peer) co_await link.post(Signal::Ack);
}

/// The lower rank of each pair gives the other one so many.
template <Pairs kPairs, std::size_t kMost>
Task<> with_bytes(Exec& x, Barrier) {
  const std::optional<Rank> peer = partner<kPairs>(x.hosts(), x.rank());
  if (!peer) co_return;
  Link& link = x.link(*peer);
  const std::size_t bytes = std::min(kMost, x.ccl_bytes());
  if (x.rank() < *peer) {
    co_await link.send(x.ccl_in(0, bytes));
    co_await link.wait(Signal::Ack);
  } else {
    co_await link.recv(x.ccl_out(0, bytes));
    co_await link.post(Signal::Ack);
  }
}

template <Pairs kPairs>
const Algorithm<Barrier> kThereAndBack = {.name = kPairs.share_host ? "measure_inside" : "measure_network",
                                          .needs = links_to_neighbours,
                                          .schedule = there_and_back<kPairs>};
template <Pairs kPairs>
const Algorithm<Barrier> kWithBytes = {
    .name = kPairs.share_host ? "measure_bytes_inside" : "measure_bytes_on_network",
    .needs = links_to_neighbours,
    .schedule = with_bytes<kPairs, kMostLargeBytes>};
template <std::size_t kMost>
const Algorithm<Barrier> kOfConnections = {.name = "measure_connections",
                                           .needs = links_to_neighbours,
                                           .schedule = with_bytes<Pairs{.share_host = false}, kMost>};

// What links are provided for is known by its address.
template <Pairs kPairs>
const AnyAlgorithm kMeasureSignals = kThereAndBack<kPairs>;
template <Pairs kPairs>
const AnyAlgorithm kMeasureBytes = kWithBytes<kPairs>;
template <std::size_t kMost>
const AnyAlgorithm kMeasureConnections = kOfConnections<kMost>;

}  // namespace

Call NetworkCalibration::call_of(const AnyAlgorithm& algorithm) const {
  const CallArguments nothing{.type = DataType::byte};
  Call call =
      make_call(operator_of<Barrier>, nothing, together_.membership().rank, together_.membership().size);
  call.algorithm = &algorithm;
  return call;
}

Task<> NetworkCalibration::connect(const AnyAlgorithm& algorithm) {
  const Call call = call_of(algorithm);
  const bool has_time = co_await together_.has_time();
  if (has_time) co_await together_.run(call);
}

Task<double> NetworkCalibration::agreed_time(const AnyAlgorithm& algorithm) {
  const Call call = call_of(algorithm);
  const bool has_time = co_await together_.has_time();
  if (!has_time) co_return 0;
  double us = co_await together_.time_once(call);
  co_await together_.agree_on_slowest(std::span(&us, 1));
  if (us > kLongUs) co_return us;
  us = co_await together_.time(call);
  co_await together_.agree_on_slowest(std::span(&us, 1));
  co_return us;
}

template <Pairs kPairs>
Task<NetworkCalibration::Way> NetworkCalibration::time_way() {
  const double spread = together_.spread;
  const double there_and_back = co_await agreed_time(kMeasureSignals<kPairs>);
  const double with_bytes = co_await agreed_time(kMeasureBytes<kPairs>);
  const bool has_partner = partner<kPairs>(reach_.hosts, together_.membership().rank).has_value();
  if (!has_partner) together_.spread = spread;  // its calls had nothing to do
  const auto bytes = static_cast<double>(std::min(kMostLargeBytes, reach_.buffer_bytes));
  if (with_bytes == 0) co_return Way{.latency_us = there_and_back / 2};
  co_return Way{.latency_us = there_and_back / 2,
                .byte_us = std::max(0.0, with_bytes - there_and_back) / bytes};
}

template <bool kIsFirstOnly>
Task<NetworkCalibration::Ways> NetworkCalibration::time_ways() {
  constexpr Pairs kBetween{.share_host = false, .is_first_only = kIsFirstOnly};
  constexpr Pairs kInside{.share_host = true, .is_first_only = kIsFirstOnly};
  co_await connect(kMeasureSignals<kBetween>);
  co_await connect(kMeasureSignals<kInside>);
  together_.allow(std::min(budget_, kMostForFigures));
  Ways ways;
  ways.between = co_await time_way<kBetween>();
  ways.inside = co_await time_way<kInside>();
  co_return ways;
}

Task<CostModel> NetworkCalibration::measure() {
  const bool may_gain = !reach_.model.is_network_work();  // more connections save nothing of work
  if (may_gain) use(1, kConnectionsToMeasure);            // of the links that are made meanwhile
  const std::optional<KnownFigures::OfNetwork> known = co_await together_.known_to_all(known_.network());
  if (known) co_return model_by(*known);
  together_.allow(budget_);
  Ways ways;
  if (may_gain)
    ways = co_await time_ways<false>();
  else
    ways = co_await time_ways<true>();
  const Way between = ways.between;
  const Way inside = ways.inside;
  std::array<double, 2> agreed = {together_.spread, use_connections_ ? 1.0 : 0.0};
  co_await together_.agree_on_slowest(agreed);
  const bool may_spread = agreed[1] != 0 && may_gain;
  Spread spread;
  if (may_spread) spread = co_await best_connections(between.byte_us);
  const double byte_us = spread.connections > 1 ? spread.byte_us : between.byte_us;
  const KnownFigures::OfNetwork figures = {
      {between.latency_us, byte_us, inside.latency_us, inside.byte_us, spread.connections}};
  const bool is_first_of_host = reach_.hosts.place_of(together_.membership().rank) == 0;
  const bool is_whole = co_await together_.has_time();
  if (is_first_of_host && is_whole && agreed[0] <= kMostKeptSpread) known_.keep(figures);
  co_return model_by(figures);
}

Task<NetworkCalibration::Spread> NetworkCalibration::best_connections(double byte_us) {
  const auto is_short = [byte_us](std::size_t most) {
    return static_cast<double>(most) * byte_us <= kLongestOfConnectionsUs;
  };
  if (!is_short(std::min(kSpreadLeast, reach_.buffer_bytes))) co_return Spread{};
  const bool is_large = is_short(kSpreadLarge);
  const std::size_t most = is_large ? kSpreadLarge : kSpreadLeast;
  const Call call = call_of(is_large ? kMeasureConnections<kSpreadLarge> : kMeasureConnections<kSpreadLeast>);
  const JointMeasurement::Way one_or_several = [this, &call](std::size_t which) {
    use(which == 0 ? 1 : kConnectionsToMeasure, kConnectionsToMeasure);
    return call;
  };
  const JointMeasurement::Rewrite nothing;
  const auto bytes = static_cast<double>(std::min(most, reach_.buffer_bytes));
  Spread best;
  for (int times = 0; times < kTimesToWin; ++times) {
    const std::optional<std::array<double, 2>> measured =
        co_await together_.time_both(one_or_several, nothing, 1);
    if (!measured) co_return Spread{};  // on all ranks
    std::array<double, 2> us = *measured;
    co_await together_.agree_on_slowest(us);
    const bool is_clear = us[0] > kClearGain * us[1];
    if (!is_clear) co_return Spread{1, us[0] / bytes};
    best = {kConnectionsToMeasure, us[1] / bytes};
  }
  co_return best;
}

/// What was measured of a way includes the work at its ends, which counts by itself. What is as slow inside
/// of a host as between hosts was disturbed.
CostModel NetworkCalibration::model_by(const KnownFigures::OfNetwork& figures) const {
  const unsigned connections = figures[4] > 1 ? kConnectionsToMeasure : 1;
  use(connections, connections);
  if (use_connections_ && together_.membership().rank == 0)
    log(LogLevel::info, "large messages to other hosts go over {} connection{} of each link over TCP",
        connections, connections == 1 ? "" : "s");
  const bool is_less_inside =
      (figures[0] == 0 || figures[2] < figures[0]) && (figures[1] == 0 || figures[3] < figures[1]);
  const LinkSpeed& speed = reach_.model.speed();
  InsideSpeed inside = reach_.model.inside();
  NetworkSpeed network = reach_.model.network();
  network.is_measured = figures[0] > 0;
  inside.is_measured = figures[2] > 0 && is_less_inside;
  if (figures[0] > 0) network.latency_us = std::max(0.0, figures[0] - speed.message_us);
  if (figures[1] > speed.byte_us) network.byte_us = figures[1];
  if (inside.is_measured) inside.latency_us = std::max(0.0, figures[2] - inside.message_us);
  if (inside.is_measured && figures[3] > 0) inside.byte_us = figures[3];
  return {speed, inside, reach_.hosts.ranks(), network};
}

}  // namespace cohort
