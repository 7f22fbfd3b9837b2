// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/cost_check.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {
namespace {

/// Blocks are rounded up to whole elements: elements per rank from which that is small beside the rest.
constexpr std::size_t kElementsPerRank = 32;
constexpr double kRounding = 1.0 / kElementsPerRank;

void add(Report& report, const std::string& text) {
  Finding finding;
  finding.kind = FindingKind::cost;
  finding.text = text;
  report.findings.push_back(finding);
}

struct Range {
  double least;
  double most;
};

/// What is declared may not be less than what a rank has, nor twice what any has.
void compare(Report& report, const char* what, double declared, const Range& counted) {
  if (declared < counted.least * (1 - kRounding))
    add(report, fmt::format("cost() declares {} {:.0f}, but a rank has {:.0f}; selection would prefer the "
                            "algorithm where it is slow",
                            what, declared, counted.least));
  if (declared > 2 * counted.most * (1 + kRounding))
    add(report,
        fmt::format("cost() declares {} {:.0f}, but no rank has more than {:.0f}; selection would avoid "
                    "the algorithm where it is fast",
                    what, declared, counted.most));
}

}  // namespace

void check_cost(const Machine& machine, const Cost& declared, const CostCase& of, Report& report) {
  const Counted& counted = report.counted;
  if (counted.bytes_to_all < counted.least_to_all)
    add(report, fmt::format("the ranks together get {} bytes from each other where at least {} are needed: "
                            "contributions come from nowhere",
                            counted.bytes_to_all, counted.least_to_all));
  const bool all_hear = of.bytes >= of.options.ranks * size_bytes(of.options.type);
  if (all_hear && counted.rounds < counted.least_rounds)
    add(report,
        fmt::format("all is over after {} rounds where {} are needed for everybody to hear of everybody: "
                    "contributions come from nowhere",
                    counted.rounds, counted.least_rounds));
  const bool is_declared = declared.rounds != 0 || declared.bytes_moved != 0;
  const bool is_worthwhile = of.options.count >= kElementsPerRank * of.options.ranks;
  const bool moves_data = counted.least_to_all != 0 || of.options.count == 0;
  if (!is_declared || (moves_data && !is_worthwhile)) return;
  const bool is_staged =
      machine.plan().is_mapped_group && of.options.user_windows == UserWindows::unreachable;
  if (of.is_one_piece && !is_staged) {
    const double rounds = counted.rounds;
    compare(report, "rounds:", declared.rounds, {rounds, rounds + 1});
  }
  if (of.bytes == 0) return;
  std::uint64_t most_moved = machine.path_bytes();
  std::uint64_t most_combined = 0;
  for (Rank rank = 0; rank < machine.ranks(); ++rank) {
    const Counts& counts = machine.counts(rank);
    most_moved =
        std::max(most_moved, std::max(counts.sent, counts.received) + counts.stored_at_peers + counts.copied);
    most_combined = std::max(most_combined, counts.operands);
  }
  const auto crossing = static_cast<double>(std::max(counted.bytes_sent, counted.bytes_received));
  compare(report, "bytes moved:", declared.bytes_moved, {crossing, static_cast<double>(most_moved)});
  if (declared.messages != 0 && of.is_one_piece) {
    std::uint64_t messages = 0;
    std::uint64_t sent = 0;
    for (Rank rank = 0; rank < machine.ranks(); ++rank) {
      messages += machine.counts(rank).messages;
      sent += machine.counts(rank).sent;
    }
    const auto of_all = static_cast<double>(messages);
    const auto bytes_of_all = static_cast<double>(sent);
    compare(report, "messages of all ranks:", declared.messages, {of_all, of_all});
    compare(report, "bytes by all ranks:", declared.bytes_by_all, {bytes_of_all, bytes_of_all});
  }
  compare(report, "bytes reduced:", declared.bytes_reduced,
          {static_cast<double>(counted.bytes_combined), static_cast<double>(most_combined)});
}

}  // namespace cohort::check
