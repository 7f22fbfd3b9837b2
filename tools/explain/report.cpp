// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/explain/report.h>

#include <cohort/engine/system/shared_memory.h>
#include <cohort/net/transport_list.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace cohort::explain {
namespace {

using Json = nlohmann::ordered_json;

std::string microseconds(const std::optional<double>& estimate_us) {
  return estimate_us ? fmt::format("{:.2f}", *estimate_us) : "-";
}

std::string cost_text(const Cost& cost) {
  return fmt::format("{:g} round{}, {:.0f} B moved, {:.0f} B combined, {:.0f} B copied", cost.rounds,
                     cost.rounds == 1 ? "" : "s", cost.bytes_moved, cost.bytes_reduced, cost.bytes_copied);
}

constexpr std::size_t kColumns = 100;

/// "SIZE ALGORITHM ESTIMATE  " and words, which go on below themselves where they need more than the columns
/// of a page.
std::string table_row(const std::string& start, const std::string& words) {
  std::string text;
  std::string line = start;
  bool has_word = false;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (has_word && line.size() + 1 + end - at > kColumns) {
      text += line + "\n";
      line = "#" + std::string(start.size() - 1, ' ');
      has_word = false;
    }
    line += (has_word ? " " : "") + words.substr(at, end - at);
    has_word = true;
    at = end + 1;
  }
  return text + line + "\n";
}

Json json_of(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

Json json_of(const Explanation::Line& line) {
  const Candidate& candidate = line.candidate;
  Json json;
  json["algorithm"] = candidate.algorithm;
  json["is_possible"] = candidate.state == Candidate::State::possible;
  json["is_in_slots"] = candidate.is_in_slots;
  if (candidate.cost) {
    json["rounds"] = candidate.cost->rounds;
    json["bytes_moved"] = candidate.cost->bytes_moved;
    json["bytes_reduced"] = candidate.cost->bytes_reduced;
    json["bytes_copied"] = candidate.cost->bytes_copied;
    json["messages"] = candidate.cost->messages;
    json["bytes_by_all"] = candidate.cost->bytes_by_all;
    json["messages_of_one"] = candidate.cost->messages_of_one;
    json["messages_to_one"] = candidate.cost->messages_to_one;
    json["bytes_of_one"] = candidate.cost->bytes_of_one;
  }
  json["estimate_us"] = json_of(candidate.estimate_us);
  json["note"] = line.note;
  return json;
}

/// [from, below] of each; null: no end.
Json ranges_of(const PullCrossover& pull, PullUse use) {
  Json ranges = Json::array();
  for (const auto& range : pull.ranges(use))
    ranges.push_back({range.from, range.below == PullCrossover::kNever ? Json() : Json(range.below)});
  return ranges;
}

std::string words_for(const std::vector<PullCrossover::Range>& ranges) {
  std::string text;
  for (const auto& [from, below] : ranges) {
    text += fmt::format("{}from {} B ", text.empty() ? "" : " and ", from);
    text += below == PullCrossover::kNever ? "on" : fmt::format("to below {} B", below);
  }
  return text.empty() ? "never" : text;
}

Json times_of(const std::vector<PullTimes>& measured) {
  Json rows = Json::array();
  for (const PullTimes& times : measured)
    rows.push_back({{"bytes", times.bytes}, {"staged_us", times.staged_us}, {"pulled_us", times.pulled_us}});
  return rows;
}

struct PullWay {
  PullUse use;
  std::string_view use_name;
  std::string_view what;
  Operator measured_by;
};
constexpr std::array<PullWay, kPullUses> kPullWays = {
    {{PullUse::to_one, "to_one", "blocks to one", operator_of<AllToAll>},
     {PullUse::rooted, "rooted", "blocks of a root", operator_of<Scatter>},
     {PullUse::to_all, "to_all", "blocks to all", operator_of<AllGather>},
     {PullUse::broadcast, "broadcast", "one to all", operator_of<Broadcast>},
     {PullUse::combined, "combined", "shares combined", operator_of<AllReduce>}}};

bool is_used(const PullWay& way, Rank ranks) { return pull_use_of(way.measured_by, ranks) == way.use; }

std::string measured_json(const Reach& reach) {
  Json json;
  json["slots"] = Json::array();
  for (const SlotTimes& times : reach.slots.measured()) {
    Json row;
    row["collective"] = to_string(times.op);
    row["bytes"] = times.bytes;
    row["slots_us"] = times.slots_us;
    row["direct_us"] = times.direct_us;
    row["most_bytes"] = reach.slots.most_bytes(times.op);
    json["slots"].push_back(row);
  }
  json["slots_by_default"] = Json::array();
  for (const Operator op : all_operators())
    if (op->has_data && !reach.slots.is_measured(op))
      json["slots_by_default"].push_back(
          {{"collective", to_string(op)}, {"most_bytes", reach.slots.most_bytes(op)}});
  json["pull"] = Json::array();
  for (const PullWay& way : kPullWays)
    if (is_used(way, reach.ranks()))
      json["pull"].push_back({{"use", way.use_name},
                              {"ranges", ranges_of(reach.pull, way.use)},
                              {"is_default", reach.pull.measured(way.use).empty()},
                              {"measured", times_of(reach.pull.measured(way.use))}});
  json["links"] = Json::array();
  for (const auto& constant : reach.model.constants())
    json["links"].push_back({{"name", constant.name},
                             {"value", constant.value},
                             {"unit", constant.unit},
                             {"is_default", constant.is_default}});
  return json.dump() + "\n";
}

std::string slots_table(const SlotCrossover& slots) {
  if (slots.measured().empty())
    return fmt::format("\n# Arrival slots: nothing was measured; by default they serve up to {} B\n",
                       SlotCrossover::kUnmeasuredBytes);
  std::string text =
      "\n# Arrival slots against direct, measured at joining on the slowest rank:\n"
      "#        collective   B per rank  slots (us)  direct (us)  slots serve up to\n";
  for (const SlotTimes& times : slots.measured())
    text += fmt::format("# {:>17} {:>12} {:>11.2f} {:>12.2f} {:>18}\n", to_string(times.op), times.bytes,
                        times.slots_us, times.direct_us, slots.most_bytes(times.op));
  std::string others;
  for (const Operator op : all_operators())
    if (op->has_data && op->counts == Counts::one && !slots.is_measured(op))
      others += fmt::format("{}{} {}", others.empty() ? "" : ", ", to_string(op), slots.most_bytes(op));
  return others.empty() ? text : text + "# by default, not measured: " + others + "\n";
}

std::string pull_table(const Reach& reach) {
  const PullCrossover& pull = reach.pull;
  std::string text = "\n# The kernel copies between private buffers:\n";
  for (const PullWay& way : kPullWays)
    if (is_used(way, reach.ranks()))
      text += fmt::format("# {:>17} {}{}\n", way.what, words_for(pull.ranges(way.use)),
                          pull.measured(way.use).empty() ? ", by default or as the options say" : "");
  if (pull.measured(PullUse::to_one).empty()) return text;
  text += "#        collective   B per rank staged (us)  pulled (us)\n";
  for (const PullWay& way : kPullWays)
    for (const PullTimes& times : pull.measured(way.use))
      text += fmt::format("# {:>17} {:>12} {:>11.2f} {:>12.2f}\n", to_string(way.measured_by), times.bytes,
                          times.staged_us, times.pulled_us);
  return text;
}

std::string links_table(const CostModel& model) {
  std::string text = "\n# Links are weighed with:\n";
  std::size_t longest = 0;
  for (const auto& constant : model.constants()) longest = std::max(longest, constant.name.size());
  for (const auto& constant : model.constants())
    text += fmt::format("# {:>{}} {:>12.4g}{}{}{}\n", constant.name, longest, constant.value,
                        constant.unit.empty() ? "" : " ", constant.unit,
                        constant.is_default ? ", by default: not measured" : "");
  return text;
}

}  // namespace

std::string Report::begin(Operator op) {
  const bool is_first = !std::exchange(has_begun_, true);
  if (options_.is_json) return "";
  std::string text = is_first ? "" : "\n";
  const std::string of_type = !op->has_data ? "" : fmt::format(" of {}", to_string(options_.type));
  text += fmt::format("# cohort {}{}: {} rank{} over {}\n#\n", to_string(op), of_type, ranks_,
                      ranks_ == 1 ? "" : "s", transport_);
  text += fmt::format("#{:>11} {:>18} {:>9}  {}\n", "size", "algorithm", "estimate", "why");
  text += fmt::format("#{:>11} {:>18} {:>9}\n", "(B)", "", "(us)");
  is_first_row_ = true;
  return text;
}

std::string Report::row(Operator op, std::size_t bytes, const Explanation& explanation) {
  if (options_.is_json) return json_row(op, bytes, explanation);
  const std::string text = table_row(
      fmt::format(" {:>11} {:>18} {:>9}  ", bytes, explanation.chosen, microseconds(explanation.estimate_us)),
      explanation.reason);
  if (!options_.is_verbose) return text;
  const std::string way =
      explanation.way.empty()
          ? ""
          : table_row(fmt::format("#{:>11} {:>18} {:>9}  ", "", "way", ""), explanation.way);
  return text + way + candidates_of(op, explanation);
}

/// Those that have no schedule for the operator have none for any size.
std::string Report::candidates_of(Operator op, const Explanation& explanation) {
  std::string text;
  std::string without;
  for (const Explanation::Line& line : explanation.candidates) {
    const Candidate& candidate = line.candidate;
    if (candidate.state == Candidate::State::not_written) {
      without += fmt::format("{}{}", without.empty() ? "" : ", ", candidate.algorithm);
      continue;
    }
    const std::string cost = candidate.cost ? cost_text(*candidate.cost) + ": " : "";
    text += table_row(
        fmt::format("#{:>11} {:>18} {:>9}  ", "", candidate.algorithm, microseconds(candidate.estimate_us)),
        cost + line.note);
  }
  if (std::exchange(is_first_row_, false) && !without.empty())
    text += table_row(fmt::format("#{:>11} {:>18} {:>9}  ", "", "others", ""),
                      fmt::format("no schedule for {}: {}", to_string(op), without));
  return text;
}

std::string Report::json_row(Operator op, std::size_t bytes, const Explanation& explanation) const {
  Json row;
  row["collective"] = to_string(op);
  row["type"] = !op->has_data ? "none" : to_string(options_.type);
  row["ranks"] = ranks_;
  row["transport"] = transport_;
  row["bytes"] = bytes;
  row["algorithm"] = explanation.chosen;
  row["determinism"] = to_string(explanation.determinism);
  row["estimate_us"] = json_of(explanation.estimate_us);
  row["reason"] = explanation.reason;
  row["way"] = explanation.way;
  row["candidates"] = Json::array();
  for (const Explanation::Line& line : explanation.candidates) row["candidates"].push_back(json_of(line));
  return row.dump() + "\n";
}

std::string Report::machine(Platform& platform) const {
  const std::string huge_pages = SharedMemory::huge_page_policy();
  if (options_.is_json) {
    Json json;
    json["host"] = platform.host_name();
    json["cores"] = platform.available_cores();
    json["core_cache_bytes"] = platform.core_cache_bytes();
    json["last_level_cache_bytes"] = platform.last_level_cache_bytes();
    json["told_core_cache_bytes"] = platform.told_core_cache_bytes();
    json["told_last_level_cache_bytes"] = platform.told_last_level_cache_bytes();
    json["huge_pages_of_shared_memory"] = huge_pages;
    for (const TransportKind& kind : transports())
      if (kind.describe != nullptr) json[std::string(kind.name)] = kind.describe();
    return json.dump() + "\n";
  }
  std::string text = fmt::format(
      "\n# This machine:\n"
      "# {:>17} {:>12}\n# {:>17} {:>12} KiB, measured; the system says {}\n# {:>17} {:>12} KiB, shared; the "
      "system says {}: not measured, large calls try what is faster\n# {:>17} {:>12}, of shared memory\n",
      "cores", platform.available_cores(), "cache of a core", platform.core_cache_bytes() >> 10,
      platform.told_core_cache_bytes() >> 10, "last-level cache", platform.last_level_cache_bytes() >> 10,
      platform.told_last_level_cache_bytes() >> 10, "huge pages", huge_pages);
  for (const TransportKind& kind : transports())
    if (kind.describe != nullptr) text += fmt::format("# {:>17} {}\n", kind.name, kind.describe());
  return text;
}

std::string Report::measured(const Reach& reach) const {
  if (options_.is_json) return measured_json(reach);
  return reach.is_host_wide ? slots_table(reach.slots) + pull_table(reach) : links_table(reach.model);
}

}  // namespace cohort::explain
