// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/suite.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::check {
namespace {

/// More than a chunk of any algorithm that cuts by itself, and no multiple of anything.
constexpr std::size_t kLargeBytes = 640'012;

/// A piece may begin before the signals of the one before are taken: links count to four.
constexpr std::uint32_t kUntakenAcrossPieces = 2;

/// Several pieces, the last one shorter.
std::size_t large_count(std::size_t largest_piece, std::size_t element_bytes) {
  return std::min(kLargeBytes, largest_piece / 2 * 5) / element_bytes + 1;
}

std::vector<std::size_t> usual_counts(Rank ranks, std::size_t large) {
  std::vector<std::size_t> counts = {0, 1, ranks - 1U, ranks, ranks + 1U, kEvenPerRank * ranks, large};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

class Collector {
 public:
  Collector(const CaseFilter& filter, std::vector<Case>& list) : filter_(filter), list_(list) {}

  /// Every case of an algorithm with so many ranks.
  void add(const AnyAlgorithm& algorithm, Rank ranks) {
    if (filter_.op && filter_.op != algorithm.op()) return;
    if (!filter_.algorithm.empty() && filter_.algorithm != algorithm.name()) return;
    if ((algorithm.ground() == Ground::alone) != (ranks == 1)) return;
    Case one{&algorithm, {}};
    one.options.ranks = ranks;
    // Where a buffer holds a part of every block, so do the communicator's.
    one.options.buffer_bytes *= std::max<std::size_t>(1, algorithm.op().given_per_count(ranks));
    const std::vector<std::size_t> counts = counts_of(one);
    if (algorithm.announces() == Announces::data) return add_slots(one, counts);
    for (const UserWindows windows : {UserWindows::staged, UserWindows::readable, UserWindows::mapped}) {
      one.options.user_windows = windows;
      if (windows != UserWindows::staged && algorithm.ground() == Ground::links) continue;
      if (windows != UserWindows::mapped && !algorithm.has_schedule()) continue;
      add_counts(one, counts);
    }
  }

 private:
  [[nodiscard]] std::vector<std::size_t> counts_of(const Case& one) const {
    if (!filter_.counts.empty()) return filter_.counts;
    const Rank ranks = one.options.ranks;
    const std::size_t largest = one.algorithm->largest_piece(one.options.buffer_bytes, ranks);
    return usual_counts(ranks, large_count(largest, size_bytes(one.options.type)));
  }
  /// Those that fit, up to a full slot, with some, all or no inputs by reference.
  void add_slots(Case one, std::vector<std::size_t> counts) {
    const std::size_t element = size_bytes(one.options.type);
    const std::size_t per_count = std::max<std::size_t>(1, one.op().given_per_count(one.options.ranks));
    const std::size_t most = kMostAnnouncedBytes / element / per_count;
    std::erase_if(counts, [&](std::size_t count) { return count > most; });
    if (filter_.counts.empty()) counts.push_back(most);
    add_counts(one, counts);
    if (!one.algorithm->may_refer(kMostAnnouncedBytes)) return;
    for (const Referring referring : {Referring::everybody, Referring::rank_0, Referring::all_but_rank_0}) {
      one.options.referring = referring;
      add_counts(one, counts);
    }
  }
  void add_counts(Case one, const std::vector<std::size_t>& counts) {
    if (!one.op()->has_data) return list_.push_back(one);
    for (const std::size_t count : counts) {
      one.options.count = count;
      add_pieces(one);
    }
  }
  /// Whole, and cut, if it is large and the algorithm itself does not cut it.
  void add_pieces(Case one) {
    add_roots_or_variants(one);
    const std::size_t bytes = one.options.count * size_bytes(one.options.type);
    const bool is_large = bytes >= kLargeBytes;
    if (!is_large || !one.algorithm->has_schedule() || one.options.user_windows != UserWindows::staged)
      return;
    one.options.piece_bytes = bytes / 5 * 2;  // as over TCP, where no piece is larger than a core's cache
    one.options.untaken_posts = kUntakenAcrossPieces;
    add_roots_or_variants(one);
  }
  void add_roots_or_variants(const Case& one) {
    if (one.op()->has_root)
      add_roots(one);
    else
      add_variants(one);
  }
  void add_roots(Case one) {
    for (Rank root = 0; root < one.options.ranks; ++root) {
      one.options.root = root;
      if (!filter_.root || filter_.root == root) add_variants(one);
    }
  }
  void add_variants(Case one) {
    list_.push_back(one);
    if (one.op()->has_one_buffer) return;
    one.options.is_in_place = true;
    list_.push_back(one);
    if (!one.op()->combines || one.options.count != one.options.ranks + 1U) return;
    one.options.reduce = ReduceOp::sum;
    one.options.type = DataType::float64;
    list_.push_back(one);
  }

  const CaseFilter& filter_;
  std::vector<Case>& list_;
};

}  // namespace

std::vector<Case> cases(const CaseFilter& filter) {
  std::vector<Case> list;
  std::vector<Rank> ranks = filter.ranks;
  for (Rank p = 1; filter.ranks.empty() && p <= kMostRanksByDefault; ++p) ranks.push_back(p);
  std::sort(ranks.rbegin(), ranks.rend());
  Collector collector(filter, list);
  const AlgorithmTable& table = filter.algorithms == nullptr ? AlgorithmTable::library() : *filter.algorithms;
  for (const Rank p : ranks)
    for (const Operator op : all_operators())
      for (const AnyAlgorithm& algorithm : table.of(op)) collector.add(algorithm, p);
  return list;
}

Report run(const Case& one) { return check(*one.algorithm, one.options); }

std::string describe(const Case& one) {
  const CheckOptions& options = one.options;
  std::string text = fmt::format("{} {}, {} rank{}", to_string(one.op()), one.algorithm->name(),
                                 options.ranks, options.ranks == 1 ? "" : "s");
  if (!one.op()->has_data) return text;
  text += fmt::format(", {} elements of {}", options.count, to_string(options.type));
  if (one.op()->has_root) text += fmt::format(", root {}", options.root);
  if (one.op()->combines) text += fmt::format(", {}", to_string(options.reduce));
  if (options.is_in_place) text += ", in place";
  if (options.user_windows != UserWindows::staged)
    text += fmt::format(", user windows {}", to_string(options.user_windows));
  if (options.referring != Referring::nobody) text += fmt::format(", {}", to_string(options.referring));
  if (options.piece_bytes != CheckOptions().piece_bytes)
    text += fmt::format(", in pieces of {} bytes", options.piece_bytes);
  return text;
}

}  // namespace cohort::check
