// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/report.h>

#include <cohort/tools/launch/rank_list.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace cohort::bench {
namespace {

constexpr std::string_view kNone = "none";

std::string label_of(const Options& options, const std::string& transport) {
  std::string label = transport;
  if (options.is_in_process) label += "-threads";
  if (options.is_shared) label += "-shared";
  return label;
}

/// 10^9 bytes per second, of the median.
double algorithm_rate(const Result& result) {
  return result.median_us > 0 ? static_cast<double>(result.shape.size_bytes) * 1e-3 / result.median_us : 0;
}

double bus_rate(const Result& result, Rank ranks) {
  return algorithm_rate(result) * result.point.exercise->bus_factor(ranks);
}

}  // namespace

std::string place_of(const Membership& membership) {
  std::vector<std::pair<const PeerInfo*, std::vector<Rank>>> hosts;
  for (const PeerInfo& peer : membership.peers) {
    const auto host =
        std::ranges::find_if(hosts, [&](const auto& known) { return known.first->host_id == peer.host_id; });
    if (host == hosts.end())
      hosts.emplace_back(&peer, std::vector{peer.rank});
    else
      host->second.push_back(peer.rank);
  }
  std::string text = "# cohort " COHORT_VERSION;
  for (const auto& [first, ranks] : hosts)
    text += fmt::format("{} {} on {}", &first == &hosts.front().first ? ":" : ";", describe_ranks(ranks),
                        first->host);
  return text + "\n";
}

Report::Report(const Options& options, std::string transport)
    : options_(options), transport_(std::move(transport)), label_(label_of(options, transport_)) {}

std::string_view Report::type_of(Exercise exercise) const {
  return !exercise->has_data ? kNone : to_string(options_.type);
}

bool Report::is_checked(Exercise exercise) const {
  return options_.checks_results && (exercise->has_data || !options_.is_joined);
}

std::string_view Report::reduction_of(Exercise exercise) const {
  return exercise->combines ? to_string(options_.reduce) : kNone;
}

std::string Report::root_of(Exercise exercise) const {
  return exercise->has_root ? std::to_string(options_.root) : "-1";
}

std::string Report::begin(Exercise exercise) {
  wrong_ = 0;
  curves_.push_back({std::string(to_string(exercise)), {}, {}, {}});
  bus_gb_per_s_ = 0;
  rows_ = 0;
  const bool is_first = !std::exchange(has_begun_, true);
  if (options_.format == Format::json) return "";
  if (options_.format == Format::csv) return is_first ? csv_head() : "";
  std::string text = is_first ? "" : "\n";
  text += fmt::format("# cohort {}: {} {} over {}, {} buffers, {}\n", to_string(exercise), options_.ranks,
                      options_.is_in_process ? "threads" : "processes", transport_,
                      options_.is_shared ? "shared" : "private",
                      options_.is_in_place || exercise->has_one_buffer ? "in place" : "out of place");
  text += fmt::format("# time: {}median over iterations of the slowest rank; inputs {} before each\n#\n",
                      exercise.is_messages() ? "there and back, " : "",
                      options_.rewrites_inputs ? "rewritten" : "not rewritten");
  text += fmt::format("#{:>12} {:>12} {:>9} {:>7} {:>5} {:>10} {:>8} {:>8} {:>7}  {}\n", "size", "count",
                      "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "algorithm");
  text += fmt::format("#{:>12} {:>12} {:>9} {:>7} {:>5} {:>10} {:>8} {:>8}\n", "(B)", "(elements)", "", "",
                      "", "(us)", "(GB/s)", "(GB/s)");
  return text;
}

std::string Report::row(const Result& result) {
  wrong_ += result.wrong;
  all_wrong_ += result.wrong;
  if (curves_.empty()) curves_.push_back({std::string(to_string(result.point.exercise)), {}, {}, {}});
  curves_.back().bytes.push_back(static_cast<double>(result.shape.size_bytes));
  curves_.back().median_us.push_back(result.median_us);
  curves_.back().bus_gb_per_s.push_back(bus_rate(result, options_.ranks));
  bus_gb_per_s_ += bus_rate(result, options_.ranks);
  ++rows_;
  switch (options_.format) {
    case Format::table: return table_row(result);
    case Format::csv: return csv_row(result);
    case Format::json: return json_row(result);
  }
  return "";
}

std::string Report::end() {
  if (options_.format != Format::table) return "";
  std::string text;
  if (options_.checks_results)
    text += fmt::format("# Wrong elements    : {} {}\n", wrong_, wrong_ == 0 ? "OK" : "FAILED");
  if (rows_ != 0)
    text += fmt::format("# Avg bus bandwidth : {:.4f} GB/s\n", bus_gb_per_s_ / static_cast<double>(rows_));
  return text;
}

std::string Report::csv_head() const {
  std::string head = "peer,transport,collective,ranks,bytes,min_us,median_us,p99_us,iters";
  if (options_.near_wait) head += ",rtt_before_ns,rtt_after_ns";
  return head + "\n";
}

std::string Report::table_row(const Result& result) const {
  const Exercise exercise = result.point.exercise;
  const std::string wrong = is_checked(exercise) ? std::to_string(result.wrong) : "N/A";
  return fmt::format(" {:>12} {:>12} {:>9} {:>7} {:>5} {:>10.2f} {:>8.2f} {:>8.2f} {:>7}  {}\n",
                     result.shape.size_bytes, result.shape.count, type_of(exercise), reduction_of(exercise),
                     root_of(exercise), result.median_us, algorithm_rate(result),
                     bus_rate(result, options_.ranks), wrong, result.algorithm);
}

/// As bench/peers prints: the size that was asked for, and nothing for a result that is wrong.
std::string Report::csv_row(const Result& result) const {
  if (result.wrong != 0) return "";
  std::string row = fmt::format("cohort,{},{},{},{},{:.3f},{:.3f},{:.3f},{}", label_,
                                to_string(result.point.exercise), options_.ranks, result.point.bytes,
                                result.min_us, result.median_us, result.p99_us, result.iterations);
  if (options_.near_wait)
    row += fmt::format(",{:.0f},{:.0f}", result.round_trip_before_ns, result.round_trip_after_ns);
  return row + "\n";
}

std::string Report::json_row(const Result& result) const {
  const Exercise exercise = result.point.exercise;
  nlohmann::ordered_json row;
  row["peer"] = "cohort";
  row["transport"] = transport_;
  row["is_in_process"] = options_.is_in_process;
  row["is_shared"] = options_.is_shared;
  row["is_in_place"] = options_.is_in_place || exercise->has_one_buffer;
  row["rewrites_inputs"] = options_.rewrites_inputs;
  row["collective"] = to_string(exercise);
  row["algorithm"] = result.algorithm;
  row["ranks"] = options_.ranks;
  row["bytes"] = result.point.bytes;
  row["size_bytes"] = result.shape.size_bytes;
  row["count"] = result.shape.count;
  row["type"] = type_of(exercise);
  row["redop"] = reduction_of(exercise);
  row["root"] = exercise->has_root ? static_cast<int>(options_.root) : -1;
  row["min_us"] = result.min_us;
  row["median_us"] = result.median_us;
  row["p99_us"] = result.p99_us;
  row["iters"] = result.iterations;
  if (options_.near_wait) {
    row["rtt_before_ns"] = result.round_trip_before_ns;
    row["rtt_after_ns"] = result.round_trip_after_ns;
  }
  row["algbw_gb_per_s"] = algorithm_rate(result);
  row["busbw_gb_per_s"] = bus_rate(result, options_.ranks);
  if (is_checked(exercise)) row["wrong"] = result.wrong;
  return row.dump() + "\n";
}

}  // namespace cohort::bench
