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

bool reduces(Operator op) { return op == Operator::all_reduce || op == Operator::reduce_scatter; }

std::vector<std::size_t> usual_counts(Rank ranks, std::size_t large) {
  std::vector<std::size_t> counts = {0, 1, ranks - 1U, ranks, ranks + 1U, kEvenPerRank * ranks, large};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

class Collector {
 public:
  Collector(const CaseFilter& filter, std::vector<Case>& list) : filter_(filter), list_(list) {}

  /// Every case of an operator with so many ranks.
  template <class Op>
  void add(Operator op, Rank ranks) {
    if (filter_.op && filter_.op != op) return;
    for (const Algorithm<Op>& algorithm : algorithms<Op>()) {
      if (filter_.algorithm && filter_.algorithm != algorithm.id) continue;
      Case one{op, algorithm.id, {}};
      one.options.ranks = ranks;
      if (op == Operator::reduce_scatter)
        one.options.buffer_bytes *= ranks;  // it holds a part of every block
      const std::size_t largest = algorithm.largest_piece(one.options.buffer_bytes, ranks);
      const std::size_t large = large_count(largest, size_bytes(one.options.type));
      for (const UserWindows windows :
           {UserWindows::unreachable, UserWindows::readable, UserWindows::mapped}) {
        one.options.user_windows = windows;
        if (windows != UserWindows::unreachable && !algorithm.needs_mapped_group) continue;
        add_counts(one, filter_.counts.empty() ? usual_counts(ranks, large) : filter_.counts);
      }
    }
  }

 private:
  void add_counts(Case one, const std::vector<std::size_t>& counts) {
    if (one.op == Operator::barrier) return list_.push_back(one);
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
    if (!is_large || one.options.user_windows != UserWindows::unreachable) return;
    one.options.piece_bytes = bytes / 5 * 2;  // as over TCP, where no piece is larger than a core's cache
    one.options.untaken_posts = kUntakenAcrossPieces;
    add_roots_or_variants(one);
  }
  void add_roots_or_variants(const Case& one) {
    if (one.op == Operator::broadcast)
      add_roots(one);
    else
      add_variants(one);
  }
  void add_roots(Case one) {
    for (Rank root = 0; root < one.options.ranks; ++root) {
      one.options.root = root;
      if (!filter_.root || filter_.root == root) list_.push_back(one);
    }
  }
  void add_variants(Case one) {
    list_.push_back(one);
    one.options.is_in_place = true;
    list_.push_back(one);
    if (!reduces(one.op) || one.options.count != one.options.ranks + 1U) return;
    one.options.reduce = ReduceOp::sum;
    one.options.type = DataType::float64;
    list_.push_back(one);
  }

  const CaseFilter& filter_;
  std::vector<Case>& list_;
};

template <class Op>
Report run_as(const Case& one) {
  for (const Algorithm<Op>& algorithm : algorithms<Op>())
    if (algorithm.id == one.algorithm) return check(algorithm, one.options);
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("{} has no algorithm {}", to_string(one.op), to_string(one.algorithm)));
}

}  // namespace

std::vector<Case> cases(const CaseFilter& filter) {
  std::vector<Case> list;
  std::vector<Rank> ranks = filter.ranks;
  for (Rank p = 2; filter.ranks.empty() && p <= kMostRanksByDefault; ++p) ranks.push_back(p);
  std::sort(ranks.rbegin(), ranks.rend());
  Collector collector(filter, list);
  for (const Rank p : ranks) {
    collector.add<Barrier>(Operator::barrier, p);
    collector.add<Broadcast>(Operator::broadcast, p);
    collector.add<AllReduce>(Operator::all_reduce, p);
    collector.add<AllGather>(Operator::all_gather, p);
    collector.add<ReduceScatter>(Operator::reduce_scatter, p);
  }
  return list;
}

Report run(const Case& one) {
  switch (one.op) {
    case Operator::barrier: return run_as<Barrier>(one);
    case Operator::broadcast: return run_as<Broadcast>(one);
    case Operator::all_reduce: return run_as<AllReduce>(one);
    case Operator::all_gather: return run_as<AllGather>(one);
    case Operator::reduce_scatter: return run_as<ReduceScatter>(one);
  }
  throw Error(ErrorKind::Internal, "an operator without a checker");
}

std::string describe(const Case& one) {
  const CheckOptions& options = one.options;
  std::string text =
      fmt::format("{} {}, {} ranks", to_string(one.op), to_string(one.algorithm), options.ranks);
  if (one.op == Operator::barrier) return text;
  text += fmt::format(", {} elements of {}", options.count, to_string(options.type));
  if (one.op == Operator::broadcast) text += fmt::format(", root {}", options.root);
  if (reduces(one.op)) text += fmt::format(", {}", to_string(options.reduce));
  if (options.is_in_place) text += ", in place";
  if (options.user_windows != UserWindows::unreachable)
    text += fmt::format(", user windows {}", to_string(options.user_windows));
  if (options.piece_bytes != CheckOptions().piece_bytes)
    text += fmt::format(", in pieces of {} bytes", options.piece_bytes);
  return text;
}

}  // namespace cohort::check
