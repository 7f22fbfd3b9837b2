// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/cost_check.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cohort::check {
namespace {

void add(Report& report, const std::string& text) {
  Finding finding;
  finding.kind = FindingKind::cost;
  finding.text = text;
  report.findings.push_back(finding);
}

/// What a schedule did, in the terms in which it is declared.
Cost counted_cost(const Machine& machine) {
  Cost cost;
  cost.rounds = machine.rounds();
  auto most_moved = static_cast<double>(machine.path_bytes());
  for (Rank rank = 0; rank < machine.ranks(); ++rank) {
    const Traffic& traffic = machine.traffic(rank);
    const auto out = static_cast<double>(traffic.sent + traffic.stored_at_peers);
    most_moved = std::max({most_moved, out, static_cast<double>(traffic.received)});
    cost.bytes_reduced = std::max(cost.bytes_reduced, static_cast<double>(traffic.combined));
    cost.bytes_copied = std::max(cost.bytes_copied, static_cast<double>(traffic.copied));
    cost.messages += static_cast<double>(traffic.messages);
    cost.bytes_by_all += static_cast<double>(traffic.sent);
    cost.messages_inside += static_cast<double>(traffic.messages_inside);
    cost.bytes_by_all_inside += static_cast<double>(traffic.sent_inside);
  }
  cost.bytes_moved = most_moved;
  return cost;
}

void compare(Report& report, const char* what, double declared, double counted) {
  constexpr double kRounding = 1e-9;  // of what is computed in floating point from the same whole numbers
  if (std::abs(declared - counted) <= kRounding * std::max(declared, counted)) return;
  add(report, fmt::format("cost() declares {} {:.10g}, but the schedule has {:.10g}; selection would {}",
                          what, declared, counted,
                          declared < counted ? "prefer the algorithm where it is slow"
                                             : "avoid the algorithm where it is fast"));
}

/// Of what does not divide: a cost that is right for even counts only is off by more.
void compare_about(Report& report, const char* what, double declared, double counted) {
  if (declared <= 2 * counted && counted <= 2 * declared) return;
  add(report,
      fmt::format("cost() declares {} {:.10g} of a count that the ranks do not divide, but the schedule "
                  "has {:.10g}; let cost() hold for every count",
                  what, declared, counted));
}

/// In one run of the schedule that the cost describes: of one on mapped memory with nothing staged, of a
/// local one with nothing by reference and a core for each rank.
bool is_as_declared(const AnyAlgorithm& algorithm, const CostCase& of) {
  const CheckOptions& options = of.options;
  const bool has_other_ways = algorithm.scope() == Scope::node && algorithm.has_schedule();
  const bool is_its_way = !has_other_ways || options.user_windows == UserWindows::mapped;
  // Where ranks share cores they do not meet again, which cost() is not told.
  const bool has_cores = options.cores != CoreSupply::shared || algorithm.announces() != Announces::data;
  return algorithm.has_cost() && of.is_one_piece && is_its_way && has_cores &&
         options.referring == Referring::nobody;
}

/// Cut unevenly, blocks and shares differ by an element: of large ones, by hardly anything. A schedule that
/// rounds up may yet move twice as much of some as of others.
bool is_about(const AnyAlgorithm& algorithm, const CostCase& of) {
  constexpr std::size_t kLeastPerRank = 16;
  const CheckOptions& options = of.options;
  return algorithm.levels() == Levels::none && options.counts.empty() &&
         options.count >= kLeastPerRank * options.ranks;
}

/// Of schedules over links. In place some copies fall away, and from a root behind others the blocks of a
/// subtree may lie around the end of a buffer.
bool are_copies_exact(const AnyAlgorithm& algorithm, const CostCase& of, const Cost& declared,
                      const Cost& is) {
  if (algorithm.scope() != Scope::network || of.options.root != 0) return false;
  return !of.options.is_in_place || is.bytes_copied > declared.bytes_copied;
}

/// Where it says that one rank sends, or takes, more than others; the latter no schedule with levels says. A
/// schedule without levels does not know where it runs: it says so of ranks on hosts of their own.
void check_busiest(const Machine& machine, const AnyAlgorithm& algorithm, const CostCase& of,
                   Report& report) {
  const bool has_levels = algorithm.levels() != Levels::none;
  const Hosts hosts = has_levels ? of.options.hosts() : Hosts::apart(of.options.ranks);
  const Cost declared = algorithm.cost(of.bytes, hosts);
  const bool tells_sender = declared.messages_of_one != 0 || declared.bytes_of_one != 0;
  const bool tells_taker = declared.messages_to_one != 0;
  if (!tells_sender && !tells_taker) return;
  double messages = 0;
  double bytes = 0;
  double taken = 0;
  for (Rank rank = 0; rank < machine.ranks(); ++rank) {
    const Traffic& traffic = machine.traffic(rank);
    messages = std::max(messages,
                        static_cast<double>(traffic.messages - (has_levels ? traffic.messages_inside : 0)));
    bytes = std::max(bytes, static_cast<double>(traffic.sent - (has_levels ? traffic.sent_inside : 0)));
    taken = std::max(taken, static_cast<double>(traffic.messages_taken));
  }
  if (tells_sender) compare(report, "messages of one rank:", declared.messages_of_one, messages);
  if (tells_sender) compare(report, "bytes sent by one rank:", declared.bytes_of_one, bytes);
  if (tells_taker) compare(report, "messages to one rank:", declared.messages_to_one, taken);
}

}  // namespace

bool divides_on_levels(const AnyAlgorithm& algorithm, const CheckOptions& options) {
  if (algorithm.levels() != Levels::any_hosts) return true;
  const Hosts hosts = options.hosts();
  const Rank host_of_root = hosts.host_of(options.root);
  if (hosts.size_of(host_of_root) != hosts.most_ranks()) return false;
  const Rank first_largest = hosts.host_of(hosts.ranks_at(hosts.most_ranks() - 1).front());
  if (!hosts.are_bandwidths_equal() && host_of_root != first_largest) return false;
  const std::size_t parts = std::accumulate(options.bandwidths.begin(), options.bandwidths.end(), 0U);
  if (parts != 0 && options.count % parts != 0) return false;
  for (Rank host = 0; host < hosts.count(); ++host) {
    const std::size_t before = hosts.elements_before(host, options.count);
    const std::size_t share = hosts.elements_before(host + 1, options.count) - before;
    for (Rank other = 0; other < hosts.count(); ++other)
      if (share % hosts.size_of(other) != 0) return false;
  }
  return true;
}

bool divides_evenly(const AnyAlgorithm& algorithm, const CheckOptions& options) {
  if (!algorithm.op()->has_data) return true;
  return options.count != 0 && options.count % options.ranks == 0 &&
         options.count % options.hosts().count() == 0 && options.counts.empty() &&
         divides_on_levels(algorithm, options);
}

void check_cost(const Machine& machine, const AnyAlgorithm& algorithm, const CostCase& of, Report& report) {
  const Counted& counted = report.counted;
  if (counted.bytes_to_all < counted.least_to_all)
    add(report, fmt::format("the ranks together get {} bytes from each other where at least {} are needed: "
                            "contributions come from nowhere",
                            counted.bytes_to_all, counted.least_to_all));
  const bool all_hear = !algorithm.op().is_one_way() &&
                        of.bytes >= of.options.ranks * size_bytes(of.options.type) &&
                        of.options.counts.empty();
  if (all_hear && counted.rounds < counted.least_rounds)
    add(report,
        fmt::format("all is over after {} rounds where {} are needed for everybody to hear of everybody: "
                    "contributions come from nowhere",
                    counted.rounds, counted.least_rounds));
  if (!is_as_declared(algorithm, of)) return;
  const Cost declared = algorithm.cost(of.bytes, of.options.hosts());
  const Cost is = counted_cost(machine);
  if (!divides_evenly(algorithm, of.options)) {
    if (!is_about(algorithm, of)) return;
    compare_about(report, "bytes moved:", declared.bytes_moved, is.bytes_moved);
    compare_about(report, "bytes reduced:", declared.bytes_reduced, is.bytes_reduced);
    return;
  }
  compare(report, "rounds:", declared.rounds, is.rounds);
  compare(report, "bytes moved:", declared.bytes_moved, is.bytes_moved);
  compare(report, "bytes reduced:", declared.bytes_reduced, is.bytes_reduced);
  if (are_copies_exact(algorithm, of, declared, is))
    compare(report, "bytes copied:", declared.bytes_copied, is.bytes_copied);
  compare(report, "messages of all ranks:", declared.messages, is.messages);
  compare(report, "bytes by all ranks:", declared.bytes_by_all, is.bytes_by_all);
  check_busiest(machine, algorithm, of, report);
  if (algorithm.levels() == Levels::none) return;  // it does not know where it runs
  compare(report, "messages inside of hosts:", declared.messages_inside, is.messages_inside);
  compare(report, "bytes inside of hosts:", declared.bytes_by_all_inside, is.bytes_by_all_inside);
}

}  // namespace cohort::check
