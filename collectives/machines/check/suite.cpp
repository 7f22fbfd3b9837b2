// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/suite.h>

#include <cohort/engine/error.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace cohort::check {
namespace {

/// More than a chunk of any algorithm that cuts by itself, and no multiple of anything.
constexpr std::size_t kLargeBytes = 640'012;

/// Of a piece that fills its size class but for one element: needs() has hardly more to give than it takes.
constexpr std::size_t kFullClassBytes = std::size_t{1} << 14;

/// Elements beyond what 32 bits can count; the bytes of pieces and blocks are beyond it, too.
constexpr std::size_t kHugeCount = (std::size_t{1} << 32) + 5;
constexpr Rank kMostRanksOfHuge = 3;
/// Bytes beyond it, of schedules that cut messages into chunks by themselves: a task for each takes its time.
constexpr std::size_t kHugeCountInChunks = (std::size_t{1} << 30) + 5;
constexpr Rank kMostRanksOfHugeInChunks = 2;
/// Of a rank's share of a message, for more ranks: the third of chunks of 1 MiB of a schedule's own, and of
/// 256 KiB a ninth, no multiple of anything.
constexpr std::size_t kLargeShareBytes = (std::size_t{2} << 20) + 65'556;
constexpr Rank kRanksOfLargeShares[] = {4, 5, 8};

/// Who refers is anybody of so many.
constexpr Rank kMostRanksOfEveryReferring = 5;

/// What a schedule may be told beside the usual: ranks that share cores, with rings, as few do, and without;
/// the first, second, fourth and fifth call round a ring; a stage smaller than its buffer.
struct OtherPlan {
  CoreSupply cores;
  bool goes_round;
  bool is_small;  ///< the stage
  std::uint64_t staged_calls;
};
constexpr OtherPlan kOtherPlans[] = {
    {CoreSupply::shared, false, true, 1},   {CoreSupply::one_each, true, true, 3},
    {CoreSupply::shared, false, false, 3},  {CoreSupply::shared, true, true, 4},
    {CoreSupply::one_each, true, false, 1}, {CoreSupply::idle, true, false, 4},
};
/// Of these, where nothing is staged, or there are many ranks.
constexpr std::size_t kFewPlans = 2;
constexpr Rank kMostRanksOfEveryPlan = 17;
/// A small stage, of its buffer.
constexpr std::size_t kOfBuffer = 4;

/// A piece may begin before the signals of the one before are taken: links count to four.
constexpr std::uint32_t kUntakenAcrossPieces = 2;

/// Besides avg of float32: every type and every reduction.
constexpr std::pair<DataType, ReduceOp> kOtherPairs[] = {
    {DataType::float64, ReduceOp::sum},       {DataType::float16, ReduceOp::sum},
    {DataType::bfloat16, ReduceOp::avg},      {DataType::float8_e4m3, ReduceOp::max},
    {DataType::float8_e5m2, ReduceOp::min},   {DataType::int8, ReduceOp::prod},
    {DataType::int16, ReduceOp::max},         {DataType::int32, ReduceOp::bit_and},
    {DataType::int64, ReduceOp::avg},         {DataType::uint8, ReduceOp::bit_or},
    {DataType::uint16, ReduceOp::bit_xor},    {DataType::uint32, ReduceOp::logical_and},
    {DataType::uint64, ReduceOp::logical_or}, {DataType::int64, ReduceOp::min},
    {DataType::float32, ReduceOp::prod},      {DataType::uint8, ReduceOp::logical_xor}};

/// Several pieces, the last one shorter.
std::size_t large_count(std::size_t largest_piece, std::size_t element_bytes) {
  return std::min(kLargeBytes, largest_piece / 2 * 5) / element_bytes + 1;
}

/// At which costs show: what is cut among hosts and their ranks divides evenly. Not if that is more than a
/// piece: then no cost is declared, and many pieces take their time.
std::size_t even_count(const CheckOptions& options, std::size_t largest) {
  const Hosts hosts = options.hosts();
  const std::size_t even = kEvenPerRank * hosts.ranks();
  const auto& bandwidths = options.bandwidths;
  if (hosts.are_equal() && bandwidths.empty()) return even;
  std::size_t of_host = 1;
  for (Rank host = 0; host < hosts.count(); ++host)
    of_host = std::lcm(of_host, std::size_t{hosts.size_of(host)});
  const std::size_t parts = std::accumulate(bandwidths.begin(), bandwidths.end(), std::size_t{0});
  const std::size_t of_all = std::lcm(parts == 0 ? 1 : parts, std::size_t{hosts.count()});
  const std::size_t count = std::lcm(even, of_host * of_all);
  return count > largest ? even : count;
}

std::vector<std::size_t> usual_counts(const CheckOptions& options, std::size_t largest_piece,
                                      std::size_t element_bytes) {
  const Rank ranks = options.ranks;
  const std::size_t even = even_count(options, largest_piece / element_bytes);
  const std::size_t large = large_count(largest_piece, element_bytes);
  std::vector<std::size_t> counts = {0,          1,    ranks - 1U, ranks,
                                     ranks + 1U, even, large,      kFullClassBytes / element_bytes - 1};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

/// Lists whose blocks differ: each larger than the one before, every other one empty, from the first or from
/// the second on, all but the last one empty.
std::vector<std::vector<std::size_t>> uneven_counts(Counts of, Rank ranks, std::size_t most) {
  const std::size_t size = how_many(of, ranks);
  std::vector<std::vector<std::size_t>> lists(4, std::vector<std::size_t>(size));
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t step = (i + i / ranks) % ranks;  // of pairs: no two rows alike
    lists[0][i] = most * (step + 1) / ranks;
    lists[1][i] = step % 2 == 1 ? most : 0;
    lists[2][i] = i + 1 == size ? most : 0;
    lists[3][i] = step % 2 == 0 ? most : 0;
  }
  return lists;
}

/// Of so many hosts, which differ in steps and by far; nothing where there are no two.
std::vector<std::uint32_t> uneven_bandwidths(Rank hosts) {
  constexpr std::uint32_t kOfHosts[] = {3, 1, 50, 2};
  std::vector<std::uint32_t> bandwidths;
  for (Rank host = 0; host < hosts && hosts > 1; ++host)
    bandwidths.push_back(kOfHosts[host % std::size(kOfHosts)]);
  return bandwidths;
}

/// One host, hosts of equal and of unequal size, in rank order, dealt out in turn, and to and fro, and one
/// for each rank.
std::vector<std::vector<Rank>> usual_hosts(Rank ranks) {
  std::vector<std::vector<Rank>> lists = {{}};
  const auto add = [&](auto host_of) {
    std::vector<Rank> list(ranks);
    for (Rank rank = 0; rank < ranks; ++rank) list[rank] = host_of(rank);
    if (std::find(lists.begin(), lists.end(), list) == lists.end()) lists.push_back(list);
  };
  add([](Rank rank) { return rank; });
  for (Rank number = 2; number <= 3; ++number) {
    add([&](Rank rank) { return rank / number; });
    add([&](Rank rank) { return rank % number; });
    add([&](Rank rank) {
      const Rank at = rank % number;
      return rank / number % 2 == 0 ? at : number - 1 - at;
    });
  }
  add([&](Rank rank) { return rank + 1 == ranks ? 1U : 0U; });                       // all but one, and one
  add([](Rank rank) { return static_cast<Rank>(std::bit_width(rank + 1U)) - 1U; });  // 1, 2, 4, ...
  return lists;
}

/// What of its plan is not as usual.
std::string words_of_plan(const CheckOptions& options) {
  constexpr std::string_view kCores[] = {", shared cores", "", ", idle cores"};
  std::string text(kCores[static_cast<std::size_t>(options.cores)]);
  if (!options.goes_round) text += ", no rings";
  if (options.host_plan().stage_bytes < options.buffer_bytes)
    text += fmt::format(", stages of {} bytes", options.stage_bytes);
  if (options.staged_calls != 0) text += fmt::format(", behind {} staged calls", options.staged_calls);
  return text;
}

class Collector {
 public:
  Collector(const CaseFilter& filter, std::vector<Case>& list) : filter_(filter), list_(list) {}

  /// Every case of an algorithm with so many ranks.
  void add(const AnyAlgorithm& algorithm, Rank ranks) {
    if (filter_.op && filter_.op != algorithm.op()) return;
    if (!filter_.algorithm.empty() && filter_.algorithm != algorithm.name()) return;
    if ((algorithm.scope() == Scope::self) != (ranks == 1)) return;
    const bool asks = algorithm.levels() != Levels::none;
    const auto hosts = asks ? usual_hosts(ranks) : std::vector<std::vector<Rank>>(1);
    for (const std::vector<Rank>& host_of : hosts) {
      Case one{&algorithm, {}};
      one.options.ranks = ranks;
      one.options.host_of = host_of;
      if (algorithm.levels() == Levels::equal_switches)
        add_switches(one);
      else if (algorithm.fits(one.options.hosts()))
        add_hosts(one);
      if (algorithm.levels() == Levels::any_hosts) add_bandwidths(one);
    }
  }

 private:
  void add_bandwidths(Case one) {
    one.options.bandwidths = uneven_bandwidths(one.options.hosts().count());
    if (!one.options.bandwidths.empty()) add_hosts(one);
  }
  /// Of 1, 2 and 3 hosts, and of all.
  void add_switches(Case one) {
    const Rank hosts = one.options.hosts().count();
    for (const Rank number : {Rank{1}, Rank{2}, Rank{3}, hosts}) {
      if (number == one.options.hosts_per_switch || number > hosts) break;
      one.options.hosts_per_switch = number;
      if (one.algorithm->fits(one.options.hosts())) add_hosts(one);
    }
  }
  void add_hosts(Case one) {
    const AnyAlgorithm& algorithm = *one.algorithm;
    const Rank ranks = one.options.ranks;
    // Where a buffer holds a part of every block, so do the communicator's.
    one.options.buffer_bytes *= std::max<std::size_t>(1, algorithm.op().given_per_count(ranks));
    const std::vector<std::size_t> counts = counts_of(one);
    if (algorithm.announces() == Announces::data) return add_slots(one, counts);
    for (const UserWindows windows : {UserWindows::staged, UserWindows::readable, UserWindows::mapped}) {
      one.options.user_windows = windows;
      if (windows != UserWindows::staged && algorithm.scope() == Scope::network) continue;
      if (windows != UserWindows::mapped && !algorithm.has_schedule()) continue;
      add_counts(one, counts);
      if (filter_.counts.empty()) add_huge(one);
      if (filter_.counts.empty()) add_large_shares(one);
      if (algorithm.scope() == Scope::node) add_plans(one, counts);
    }
  }
  /// Of what is staged, one message more, of five pieces of a small stage, that goes round the ring's end.
  void add_plans(Case one, std::vector<std::size_t> counts) {
    if (!filter_.has_every_plan) return;
    const bool is_staged = one.options.user_windows == UserWindows::staged;
    const bool are_few = !is_staged || one.options.ranks > kMostRanksOfEveryPlan;
    const std::size_t small = one.options.buffer_bytes / kOfBuffer;
    const std::size_t per_count = std::max<std::size_t>(1, one.op().given_per_count(one.options.ranks));
    if (is_staged && filter_.counts.empty())
      counts.push_back(small / per_count / 2 * 5 / size_bytes(one.options.type) - 1);
    for (const OtherPlan& plan : std::span(kOtherPlans).first(are_few ? kFewPlans : std::size(kOtherPlans))) {
      one.options.cores = plan.cores;
      one.options.goes_round = plan.goes_round;
      one.options.stage_bytes = plan.is_small ? small : CheckOptions().stage_bytes;
      one.options.staged_calls = plan.staged_calls;
      add_counts(one, counts);
    }
  }
  [[nodiscard]] std::vector<std::size_t> counts_of(const Case& one) const {
    if (!filter_.counts.empty()) return filter_.counts;
    const Hosts hosts = one.options.hosts();
    const std::size_t largest = one.algorithm->largest_piece(one.options.buffer_bytes, hosts);
    const std::size_t element = size_bytes(one.options.type);
    return usual_counts(one.options, largest, element);
  }
  /// Those that fit, up to a full slot, with some, all or no inputs by reference.
  void add_slots(Case one, std::vector<std::size_t> counts) {
    const std::size_t element = size_bytes(one.options.type);
    const std::size_t per_count = std::max<std::size_t>(1, one.op().given_per_count(one.options.ranks));
    const std::size_t most = tuning::slots::kMostBytes / element / per_count;
    std::erase_if(counts, [&](std::size_t count) { return count > most; });
    if (filter_.counts.empty()) counts.push_back(most);
    add_counts(one, counts);
    for (const CoreSupply cores : {CoreSupply::shared, CoreSupply::idle}) {
      if (!filter_.has_every_plan) break;
      Case other = one;
      other.options.cores = cores;
      other.options.goes_round = cores != CoreSupply::shared;
      add_counts(other, counts);
    }
    if (!one.algorithm->may_refer()) return;
    for (const Referring referring : {Referring::everybody, Referring::rank_0, Referring::all_but_rank_0}) {
      one.options.referring = referring;
      add_counts(one, counts);
    }
    if (filter_.has_every_plan) add_referring(one, counts);
  }
  /// In every other way: of one count, since there are many.
  void add_referring(Case one, const std::vector<std::size_t>& counts) {
    const Rank ranks = one.options.ranks;
    if (ranks > kMostRanksOfEveryReferring) return;
    const std::uint64_t all = (std::uint64_t{1} << ranks) - 1;
    for (std::uint64_t who = 2; who + 2 <= all; ++who) {
      one.options.referring = static_cast<Referring>(who);
      add_counts(one, {filter_.counts.empty() ? ranks + 1U : counts.back()});
    }
  }
  /// In buffers so large that a few pieces are enough: costs are those of tasks, not of bytes.
  void add_huge(Case one) {
    const bool pulls = one.options.user_windows == UserWindows::readable && one.op()->combines;
    const Rank most = pulls ? kMostRanksOfHugeInChunks : kMostRanksOfHuge;
    if (!one.op()->has_data || one.options.ranks > most) return;
    one.options.count = pulls ? kHugeCountInChunks : kHugeCount;
    one.options.operations = 1;
    one.options.untaken_posts = kUntakenAcrossPieces;
    one.options.buffer_bytes = kHugeCount / 2 * size_bytes(one.options.type) * one.options.ranks;
    if (one.op()->has_root && !filter_.root) one.options.root = one.options.ranks - 1;
    if (filter_.root) one.options.root = *filter_.root;
    list_.push_back(one);
  }
  /// So large that schedules cut it by themselves several times, in buffers that hold it whole.
  void add_large_shares(Case one) {
    const Rank ranks = one.options.ranks;
    const bool has_turn = std::ranges::find(kRanksOfLargeShares, ranks) != std::end(kRanksOfLargeShares);
    if (!one.op()->has_data || !has_turn) return;
    one.options.count = kLargeShareBytes * ranks / size_bytes(one.options.type) + 1;
    one.options.operations = 1;
    one.options.untaken_posts = kUntakenAcrossPieces;
    one.options.buffer_bytes = kLargeShareBytes * (ranks + 1) * ranks;
    if (one.op()->has_root) one.options.root = filter_.root ? *filter_.root : ranks - 1;
    list_.push_back(one);
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
    const std::size_t bytes = one.options.count * size_bytes(one.options.type);
    const bool is_cut = bytes > one.algorithm->largest_piece(one.options.buffer_bytes, one.options.hosts());
    if (is_cut) one.options.untaken_posts = kUntakenAcrossPieces;
    add_roots_or_variants(one);
    if (bytes < kLargeBytes) return;
    if (const std::optional<Case> cut = in_pieces(one, bytes / 5 * 2)) add_roots_or_variants(*cut);
  }
  void add_roots_or_variants(const Case& one) {
    if (one.op()->has_root)
      add_roots(one);
    else
      add_variants(one);
  }
  /// Of many ranks not every root: on several hosts, since hosts, roots and ranks multiply, and by default.
  void add_roots(Case one) {
    const bool is_usual = has_usual_plan(one);
    const bool has_every_root = is_usual && one.options.host_of.empty() &&
                                (!filter_.ranks.empty() || is_of_every_root(one.options.ranks));
    for (Rank root = 0; root < one.options.ranks; ++root) {
      if (!has_every_root && is_one_of_many(root, one.options.ranks, is_usual ? kFew : kFewRoots)) continue;
      one.options.root = root;
      if (!filter_.root || filter_.root == root) add_variants(one);
    }
  }
  void add_variants(Case one) {
    add_places(one);
    if (!has_usual_plan(one) && one.options.ranks > kFew) return;
    const bool may_differ = one.op()->counts != Counts::one && one.options.ranks > 1;
    if (may_differ && one.options.count != 0) add_counts_that_differ(one);
    if (one.options.count == one.options.ranks + 1U && has_usual_plan(one)) add_types(one);
  }
  void add_places(Case one) {
    list_.push_back(one);
    one.options.is_in_place = true;
    if (one.op()->has_in_place) list_.push_back(one);
  }
  static constexpr Rank kFew = 9;
  /// Of other plans, which multiply them.
  static constexpr Rank kFewRoots = 3;
  [[nodiscard]] static bool has_usual_plan(const Case& one) {
    const HostPlan plan = one.options.host_plan();
    HostPlan usual = CheckOptions().host_plan();
    usual.windows = plan.windows;
    usual.stage_bytes = one.options.buffer_bytes;
    return plan == usual;
  }
  [[nodiscard]] static bool is_of_every_root(Rank ranks) {
    return std::find(std::begin(kRanksOfEveryRoot), std::end(kRanksOfEveryRoot), ranks) !=
           std::end(kRanksOfEveryRoot);
  }
  /// A root that others stand for.
  [[nodiscard]] bool is_one_of_many(Rank root, Rank ranks, Rank few = kFew) const {
    return ranks > few && root != 0 && root != ranks / 2 && root + 1 != ranks && !filter_.root;
  }
  /// With many ranks not for every root, nor every matrix: lists, roots and ranks multiply.
  void add_counts_that_differ(Case one) {
    const Rank ranks = one.options.ranks;
    if (is_one_of_many(one.options.root, ranks)) return;
    for (std::vector<std::size_t>& counts :
         uneven_counts(one.op()->counts, one.options.ranks, one.options.count)) {
      one.options.counts = std::move(counts);
      add_places(one);
      if (ranks > kFew && one.op()->counts == Counts::pairs) return;  // ranks x ranks blocks
    }
  }
  /// Of what only moves, elements of two other sizes are enough: larger, and smaller than a word.
  void add_types(Case one) {
    for (const auto& [type, reduce] : kOtherPairs) {
      if (!one.op()->combines && type != DataType::float64 && type != DataType::uint8) continue;
      one.options.type = type;
      one.options.reduce = reduce;
      if (fits(one)) list_.push_back(one);
      if (!one.op()->combines && type == DataType::uint8) return;
      one.options.is_in_place = !one.options.is_in_place && one.op()->has_in_place;
    }
  }

  /// What travels in a slot has room there, with elements of this size, too.
  [[nodiscard]] static bool fits(const Case& one) {
    const std::size_t bytes = one.options.count * size_bytes(one.options.type);
    const bool travels = one.algorithm->announces() == Announces::data;
    return !travels || bytes * one.op().given_per_count(one.options.ranks) <= tuning::slots::kMostBytes;
  }

  const CaseFilter& filter_;
  std::vector<Case>& list_;
};

std::vector<Rank> ranks_of(const CaseFilter& filter) {
  std::vector<Rank> ranks = filter.ranks;
  for (Rank number = 1; filter.ranks.empty() && number <= kMostRanksByDefault; ++number)
    ranks.push_back(number);
  std::sort(ranks.rbegin(), ranks.rend());
  return ranks;
}

void add_cases(const CaseFilter& filter, Rank ranks, std::vector<Case>& list) {
  Collector collector(filter, list);
  const AlgorithmTable& table = filter.algorithms == nullptr ? AlgorithmTable::library() : *filter.algorithms;
  for (const Operator op : all_operators())
    for (const AnyAlgorithm& algorithm : table.of(op)) collector.add(algorithm, ranks);
}

}  // namespace

std::vector<Case> cases(const CaseFilter& filter) {
  std::vector<Case> list;
  for (const Rank ranks : ranks_of(filter)) add_cases(filter, ranks, list);
  return list;
}

CaseSource source_of(const CaseFilter& filter) {
  return [filter, ranks = ranks_of(filter), next = std::size_t{0}]() mutable {
    std::vector<Case> list;
    while (list.empty() && next < ranks.size()) add_cases(filter, ranks[next++], list);
    return list;
  };
}

CaseSource source_of(std::vector<Case> list) {
  return [list = std::move(list)]() mutable { return std::exchange(list, {}); };
}

std::vector<Case> cases_of(const AnyAlgorithm& algorithm, const CaseFilter& filter) {
  std::vector<Case> list;
  Collector collector(filter, list);
  for (const Rank p : ranks_of(filter)) collector.add(algorithm, p);
  return list;
}

std::optional<Case> in_pieces(const Case& one, std::size_t piece_bytes) {
  if (!one.algorithm->has_schedule() || one.algorithm->scope() == Scope::node) return std::nullopt;
  Case cut = one;
  cut.options.piece_bytes = piece_bytes;
  cut.options.untaken_posts = kUntakenAcrossPieces;
  return cut;
}

std::optional<Case> in_stages(const Case& one, std::size_t buffer_bytes) {
  const bool is_staged = one.algorithm->scope() == Scope::node && one.algorithm->has_schedule() &&
                         one.options.user_windows == UserWindows::staged;
  if (!is_staged) return std::nullopt;
  Case staged = one;
  staged.options.buffer_bytes = buffer_bytes;
  return staged;
}

Report run(const Case& one) { return check(*one.algorithm, one.options); }

GridReport check_all(const AnyAlgorithm& algorithm, const CaseFilter& filter) {
  GridReport grid;
  for (const Case& one : cases_of(algorithm, filter)) {
    ++grid.cases;
    Report report = run(one);
    if (!report.passed()) grid.failures.push_back({describe(one), std::move(report)});
  }
  return grid;
}

std::string GridReport::text() const {
  std::string text;
  for (const Failure& failure : failures) text += fmt::format("{}\n{}", failure.what, failure.report.text());
  if (cases == 0) text = "no case is like that, so nothing was checked\n";
  return text;
}

std::string describe(const Case& one) {
  const CheckOptions& options = one.options;
  std::string text = fmt::format("{} {}, {} rank{}", to_string(one.op()), one.algorithm->name(),
                                 options.ranks, options.ranks == 1 ? "" : "s");
  if (!options.host_of.empty()) text += fmt::format(", on hosts {}", fmt::join(options.host_of, " "));
  if (options.hosts_per_switch != 0) text += fmt::format(", switches of {}", options.hosts_per_switch);
  if (!options.bandwidths.empty()) text += fmt::format(", bandwidths {}", fmt::join(options.bandwidths, " "));
  if (!one.op()->has_data) return text;
  const std::size_t shown = std::min<std::size_t>(options.counts.size(), 8);
  text += fmt::format(", {} elements of {}", options.count, to_string(options.type));
  if (!options.counts.empty())
    text += fmt::format(" at most: {}{}", fmt::join(std::span(options.counts).first(shown), ", "),
                        shown < options.counts.size() ? ", ..." : "");
  if (one.op()->has_root) text += fmt::format(", root {}", options.root);
  if (one.op()->combines) text += fmt::format(", {}", to_string(options.reduce));
  if (options.is_in_place) text += ", in place";
  if (options.user_windows != UserWindows::staged)
    text += fmt::format(", user windows {}", to_string(options.user_windows));
  if (options.referring != Referring::nobody) text += fmt::format(", {}", to_string(options.referring));
  if (options.piece_bytes != CheckOptions().piece_bytes)
    text += fmt::format(", in pieces of {} bytes", options.piece_bytes);
  if (options.buffer_bytes != CheckOptions().buffer_bytes)
    text += fmt::format(", CCL buffers of {} bytes", options.buffer_bytes);
  text += words_of_plan(options);
  return text;
}

}  // namespace cohort::check
