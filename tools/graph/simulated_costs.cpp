// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/graph/simulated_costs.h>

#include <cohort/collectives/machines/sim/simulate.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/engine/error.h>
#include <cohort/tools/sim/library_links.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace cohort {
namespace {

constexpr std::uint64_t kLeastBytes = 4096;
constexpr std::uint64_t kFactor = 8;
/// Of one run: some seconds.
constexpr double kMostMessages = 4e6;

struct Run {
  double us = 0;
  std::string algorithm;
};

std::optional<Run> run(const AnyAlgorithm& algorithm, const sim::Topology& topology,
                       const sim::Setup& setup) {
  if (!algorithm.fits(sim::hosts_of(topology, setup.ranks)) || algorithm.scope() == Scope::self)
    return std::nullopt;
  if (algorithm.scope() == Scope::node && !sim::has_one_memory(topology, setup.ranks)) return std::nullopt;
  if (!algorithm.has_cost() || sim::predicted_messages(algorithm, topology, setup) > kMostMessages)
    return std::nullopt;
  try {
    const sim::Prediction prediction = sim::simulate(algorithm, topology, setup);
    if (!prediction.did_end) return std::nullopt;
    return Run{.us = prediction.microseconds, .algorithm = std::string(algorithm.name())};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::InvalidArgument) throw;
    return std::nullopt;  // more than it carries
  }
}

/// The fastest that can be simulated: where the library measures before it chooses, or its choice takes too
/// long.
Run fastest_run(Operator op, const sim::Topology& topology, const sim::Setup& setup) {
  std::optional<Run> best;
  for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op)) {
    const std::optional<Run> one = run(algorithm, topology, setup);
    if (one && (!best || one->us < best->us)) best = one;
  }
  if (!best)
    throw Error(
        ErrorKind::Unsupported,
        fmt::format("{} of {} ranks: no algorithm can be simulated with that topology; give fewer ranks",
                    to_string(op), setup.ranks));
  return *best;
}

}  // namespace

SimulatedCosts::SimulatedCosts(const sim::Topology& topology, Rank ranks, std::uint64_t most_bytes)
    : topology_(topology),
      ranks_(ranks),
      hosts_(static_cast<Rank>(sim::host_bounds(topology, ranks).size() - 1)),
      most_bytes_(std::max(most_bytes, kLeastBytes)) {}

SimulatedCosts::Place SimulatedCosts::place_of(const std::string& group) const {
  if (group == "world") return {.topology = topology_, .ranks = ranks_};
  const std::vector<Rank> bounds = sim::host_bounds(topology_, ranks_);
  const Rank of_host = bounds[1] - bounds[0];
  for (std::size_t host = 1; host + 1 < bounds.size(); ++host)
    if (bounds[host + 1] - bounds[host] != of_host)
      throw Error(
          ErrorKind::Unsupported,
          fmt::format("host {} has {} ranks and host 0 has {}: reducing host by host is simulated for equal "
                      "hosts only; give a multiple of the ranks of a host",
                      host, bounds[host + 1] - bounds[host], of_host));
  if (group == "host") return {.topology = topology_, .ranks = of_host};
  Place place{.topology = topology_, .ranks = hosts_};
  place.topology.ranks_per_host = 1;
  place.topology.ranks_of_hosts.clear();
  if (group == "leaders") return place;
  // All places of a host reduce their shares at the same time, over the same NICs.
  place.parts = of_host;
  const double rails = topology_.rails == 0 ? of_host : topology_.rails;
  const double of_nic = std::min(1.0, rails / of_host);
  place.topology.network.gigabytes_per_second *= of_nic;
  for (double& rate : place.topology.gigabytes_per_second_of_hosts) rate *= of_nic;
  return place;
}

graph::Cost SimulatedCosts::simulate(const std::string& op, const std::string& group) {
  const Operator which = *parse_operator(op);
  const Place place = place_of(group);
  if (place.ranks < 2) return graph::Cost::of([](std::uint64_t) { return 0.0; });
  std::vector<graph::CostPoint> points;
  Run last;
  for (std::uint64_t bytes = kLeastBytes;; bytes *= kFactor) {
    sim::Setup setup;
    setup.ranks = place.ranks;
    const std::uint64_t unit = size_bytes(setup.type) * place.ranks;
    setup.bytes = std::max<std::uint64_t>(1, bytes / place.parts / unit) * unit;
    const AnyAlgorithm* const choice = sim::choice_of_library(which, place.topology, setup);
    const std::optional<Run> chosen = choice == nullptr ? std::nullopt : run(*choice, place.topology, setup);
    // Another algorithm would bend the line: what is longer goes straight on.
    if (choice != nullptr && !chosen && points.size() > 1) break;
    last = chosen ? *chosen : fastest_run(which, place.topology, setup);
    points.push_back({.bytes = bytes, .us = last.us});
    if (bytes >= most_bytes_) break;
  }
  notes_.push_back(fmt::format("{} of {} ({} ranks): {} for {} bytes, {:.1f} us", op, group, place.ranks,
                               last.algorithm, points.back().bytes, points.back().us));
  return graph::Cost::between(std::move(points));
}

const graph::Cost& SimulatedCosts::of(const std::string& op, const std::string& group) {
  const auto key = std::pair(op, group);
  const auto found = costs_.find(key);
  if (found != costs_.end()) return found->second;
  return costs_.emplace(key, simulate(op, group)).first->second;
}

const graph::Cost& SimulatedCosts::of(const graph::Node& collective) {
  return of(collective.op, collective.attribute_or<std::string>("group", "world"));
}

graph::Cost SimulatedCosts::of(graph::ReduceForm form) {
  if (form == graph::ReduceForm::flat) return of("all_reduce", "world");
  const bool is_leader = form == graph::ReduceForm::leader;
  const graph::Cost& inside = is_leader ? of("reduce", "host") : of("reduce_scatter", "host");
  const graph::Cost& between = of("all_reduce", is_leader ? "leaders" : "across_hosts");
  const graph::Cost& back = is_leader ? of("broadcast", "host") : of("all_gather", "host");
  const std::array<graph::Cost, 3> parts = {inside, between, back};
  return graph::Cost::of([parts](std::uint64_t bytes) {
    return parts[0].idle(bytes) + parts[1].idle(bytes) + parts[2].idle(bytes);
  });
}

}  // namespace cohort
