// SPDX-License-Identifier: Apache-2.0
// The library's algorithms through the checker: a sample of what `cohort check --all` goes through, and the
// order of reduction that each promises in its comment.
#include <cohort/collectives/machines/check/suite.h>
#include <cohort/engine/system/sanitizers.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace cohort::library_test {
namespace {

using check::Case;
using check::Report;

constexpr Rank kSmall = 9;
constexpr Rank kLarge = 33;

/// Primes, so that no operator, root, count or variant is always left out. `cohort check --all` takes all. A
/// sanitizer sees the same code with every case.
constexpr std::size_t kStrideOfSmall = sanitizers::kAddress ? 53 : 11;
constexpr std::size_t kStrideOfMany = sanitizers::kAddress ? 2999 : 499;
constexpr std::size_t kStrideOfHuge = 11;

void expect_passes(const Case& one) { EXPECT_EQ(check::run(one).text(), "") << check::describe(one); }

TEST(Library, cases_of_few_ranks_pass) {
  check::CaseFilter filter;
  for (Rank ranks = 1; ranks <= kSmall; ++ranks) filter.ranks.push_back(ranks);
  const std::vector<Case> all = check::cases(filter);
  ASSERT_GT(all.size(), kStrideOfSmall);
  for (std::size_t i = 0; i < all.size(); i += kStrideOfSmall) expect_passes(all[i]);
}

/// Of all that `cohort check --all` takes, a sample, and of each algorithm one case at least with more than
/// kLarge ranks, each with another number of them.
TEST(Library, cases_of_many_ranks_pass) {
  std::map<const AnyAlgorithm*, Rank> numbers;  // of ranks
  for (const Operator op : all_operators())
    for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op))
      if (algorithm.scope() != Scope::self)
        numbers[&algorithm] =
            kLarge + 1 + static_cast<Rank>(numbers.size()) % (check::kMostRanksByDefault - kLarge);
  std::set<const AnyAlgorithm*> large;
  const check::CaseSource source = check::source_of(check::CaseFilter());
  std::size_t next = 0;
  for (std::vector<Case> list = source(); !list.empty(); list = source()) {
    const Rank ranks = list.front().options.ranks;
    for (const Case& one : list) {
      const bool is_turn =
          ranks > kLarge && numbers[one.algorithm] == ranks && large.insert(one.algorithm).second;
      if (ranks > kSmall && (is_turn || next++ % kStrideOfMany == 0)) expect_passes(one);
    }
  }
  EXPECT_EQ(large.size(), numbers.size()) << "some algorithm has no case of so many ranks";
}

TEST(Library, small_all_gathers_take_the_blocks_of_peers_alone_out_of_slots) {
  std::size_t own = 0;
  const check::Fault watch = [&](const check::TaskPlace& place, check::TaskRequest& request) {
    for (const PlacedSlice& input : request.inputs)
      own += input.rank == place.rank && input.slice.window == WindowId::slot ? 1 : 0;
    return check::Fate::keep;
  };
  check::CheckOptions options;
  options.is_in_place = true;
  const AnyAlgorithm* const slots = AlgorithmTable::library().find(operator_of<AllGather>, "slots");
  ASSERT_NE(slots, nullptr);
  EXPECT_EQ(check::check(*slots, options, &watch).text(), "");
  EXPECT_EQ(own, 0U);
}

TEST(Library, every_algorithm_passes_with_64_ranks) {
  check::CaseFilter filter;
  filter.ranks = {64};
  filter.counts = {check::kEvenPerRank * 64 + 1};
  filter.root = 63;
  std::set<const void*> seen;
  std::size_t others = 0;
  for (const Case& one : check::cases(filter))
    if (seen.insert(one.algorithm).second || ++others % kStrideOfHuge == 0) expect_passes(one);
}

TEST(Library, sets_of_cases_have_every_algorithm_root_count_and_variant) {
  check::CaseFilter filter;
  filter.ranks = {5};
  std::map<Operator, std::size_t> counts;
  for (const Case& one : check::cases(filter)) ++counts[one.op()];
  const std::size_t usual = 7;  // 0, 1, p-1, p, p+1, 40 p, several pieces
  for (const Operator op : all_operators()) {
    const auto all = AlgorithmTable::library().of(op);
    const auto runs = [](const AnyAlgorithm& one) { return one.scope() != Scope::self; };
    const auto algorithms = static_cast<std::size_t>(std::count_if(all.begin(), all.end(), runs));
    const std::size_t mapped = 2;  // ways to reach user windows, besides the one through CCL buffers
    const std::size_t roots = op->has_root ? 5 : 1;
    const std::size_t places = op->has_in_place ? 2 : 1;
    const std::size_t least =
        op->has_data ? (algorithms + mapped - 1) * roots * places * (usual - 1) : algorithms;
    EXPECT_GE(counts[op], least) << to_string(op);
  }
}

std::string text_of(const std::string& path) {
  std::ifstream file(std::filesystem::path(COHORT_TEST_SOURCE_DIR) / path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Of a variant that has no file the one of the operator whose algorithm it shares.
std::string source_of(Operator op, std::string_view id) {
  std::string name = op == operator_of<ExclusiveScan> ? "scan" : std::string(to_string(op));
  const auto path = [&] { return fmt::format("collectives/schedules/algorithms/{}_{}.cpp", name, id); };
  const bool has_file = std::filesystem::exists(std::filesystem::path(COHORT_TEST_SOURCE_DIR) / path());
  if (!has_file && name.ends_with("_v")) name.resize(name.size() - 2);
  return text_of(path());
}

/// "D3" from "(determinism D3)" in a comment that may be broken anywhere.
std::string promised_order(const std::string& source) {
  const std::regex pattern(R"(\(determinism(?:\s|/)+(D[0-3])\))");
  std::smatch match;
  return std::regex_search(source, match, pattern) ? match[1].str() : "none";
}

/// What all cases of an algorithm have shown, beside what it says of itself.
struct Found {
  ReductionOrder declared{};
  bool is_in_rank_order = true;
  bool is_at_once = true;

  [[nodiscard]] ReductionOrder order() const {
    if (!is_in_rank_order) return ReductionOrder::fixed;
    return is_at_once ? ReductionOrder::by_rank_at_once : ReductionOrder::by_rank;
  }
};

TEST(Library, combines_in_the_order_that_each_algorithm_promises) {
  for (const Operator op : all_operators()) {
    if (!op->combines) continue;
    std::map<std::string_view, Found> found;
    check::CaseFilter filter;
    filter.op = op;
    filter.ranks = {2, 3, 5, 8};
    filter.counts = {1, 3 * check::kEvenPerRank + 1};
    for (const Case& one : check::cases(filter)) {
      const Report report = check::run(one);
      Found& of = found[one.algorithm->name()];
      of.declared = one.algorithm->order();
      of.is_in_rank_order = of.is_in_rank_order && report.combines_in_rank_order;
      of.is_at_once = of.is_at_once && report.combines_at_once;
    }
    for (const auto& [id, of] : found) {
      EXPECT_EQ(to_string(of.declared), to_string(of.order())) << to_string(op) << " " << id;
      EXPECT_EQ(promised_order(source_of(op, id)), of.is_in_rank_order ? "D3" : "D1")
          << to_string(op) << " " << id;
    }
  }
}

/// The second column of the row of that name.
std::set<std::string> operators_in_docs(const std::string& docs, std::string_view name) {
  const std::regex row(fmt::format(R"(\n\| `{}` \| ([^|]*) \|)", name));
  std::smatch match;
  std::set<std::string> operators;
  if (!std::regex_search(docs, match, row)) return operators;
  std::istringstream words(match[1].str());
  for (std::string word; std::getline(words >> std::ws, word, ',');) operators.insert(word);
  return operators;
}

TEST(Library, has_a_row_in_the_docs_for_each_algorithm_with_its_operators) {
  const std::string docs = text_of("docs/extend/algorithms.md");
  std::map<std::string_view, std::set<std::string>> operators;
  for (const Operator op : all_operators())
    for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op))
      operators[algorithm.name()].emplace(to_string(op));
  for (const auto& [name, of] : operators) EXPECT_EQ(operators_in_docs(docs, name), of) << name;
}

}  // namespace
}  // namespace cohort::library_test
