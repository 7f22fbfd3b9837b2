// SPDX-License-Identifier: Apache-2.0
// What the grid of cases has by default, and that it finds what shows only with many ranks, or from some
// roots.
#include <cohort/collectives/machines/check/suite.h>
#include <cohort/tests/support/schedules.h>
#include <cohort/tests/support/wrong_schedules.h>

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace cohort::test::grid_test {
namespace {

using check::Case;
using ::testing::ElementsAre;
using ::testing::SizeIs;

/// The cases of an algorithm that the default has, by their number of ranks.
std::map<Rank, std::vector<Case>> cases_by_ranks(const AnyAlgorithm& algorithm) {
  std::map<Rank, std::vector<Case>> by_ranks;
  for (Case& one : check::cases_of(algorithm)) by_ranks[one.options.ranks].push_back(std::move(one));
  return by_ranks;
}

std::set<Rank> roots_of(const std::vector<Case>& cases, bool on_one_host) {
  std::set<Rank> roots;
  for (const Case& one : cases)
    if (one.options.host_of.empty() == on_one_host) roots.insert(one.options.root);
  return roots;
}

TEST(Grid, has_by_default_every_number_of_ranks_up_to_64_on_all_choices_of_hosts) {
  const AnyAlgorithm& ahc = library<AllGather>("ahc");
  const auto hosts_of = [](const std::vector<Case>& cases) {
    std::set<std::vector<Rank>> hosts;
    for (const Case& one : cases) hosts.insert(one.options.host_of);
    return hosts;
  };
  const std::map<Rank, std::vector<Case>> by_ranks = cases_by_ranks(ahc);
  EXPECT_THAT(by_ranks, SizeIs(check::kMostRanksByDefault - 1U));
  for (const auto& [ranks, cases] : by_ranks) {
    check::CaseFilter asked;
    asked.ranks = {ranks};
    EXPECT_EQ(hosts_of(cases), hosts_of(check::cases_of(ahc, asked))) << ranks;
  }
}

TEST(Grid, has_by_default_every_root_of_few_ranks_and_of_typical_numbers_and_three_of_the_others) {
  std::map<Rank, std::vector<Case>> by_ranks = cases_by_ranks(library<Broadcast>("ahc"));
  for (const Rank ranks : {2U, 9U, 17U, 24U, 33U, 64U})
    EXPECT_THAT(roots_of(by_ranks[ranks], true), SizeIs(ranks));
  EXPECT_THAT(roots_of(by_ranks[47], true), ElementsAre(0, 23, 46));
  EXPECT_THAT(roots_of(by_ranks[64], false), ElementsAre(0, 32, 63));
  check::CaseFilter asked;
  asked.ranks = {47};
  EXPECT_THAT(roots_of(check::cases_of(library<Broadcast>("ahc"), asked), true), SizeIs(47));
}

TEST(Grid, comes_list_after_list_as_it_does_at_once) {
  check::CaseFilter filter;
  filter.op = operator_of<Barrier>;
  std::vector<std::string> in_lists;
  const check::CaseSource source = check::source_of(filter);
  for (std::vector<Case> list = source(); !list.empty(); list = source())
    for (const Case& one : list) in_lists.push_back(check::describe(one));
  std::vector<std::string> at_once;
  for (const Case& one : check::cases(filter)) at_once.push_back(check::describe(one));
  EXPECT_EQ(in_lists, at_once);
}

/// Where a root does not wait for its last rank to be there: a mistake of some ranks and some roots alone.
using Forgets = bool (*)(Rank ranks, Rank root);

template <Forgets kForgets>
Task<> broadcast_star(Exec& x, Broadcast op) {
  if (x.rank() != op.root) {
    Link& root = x.link(op.root);
    co_await root.post(Signal::Ack);
    co_await root.recv(op.data);
    co_return;
  }
  for (const Rank peer : x.peers()) {
    const bool is_forgotten = kForgets(x.size(), op.root) && peer + 1 == x.size();
    if (!is_forgotten) co_await x.link(peer).wait(Signal::Ack);
  }
  for (const Rank peer : x.peers()) co_await x.link(peer).send(op.data);
}

/// The numbers of ranks with a case that fails, of those that are tried.
template <Forgets kForgets>
std::set<Rank> found_with() {
  constexpr Rank kTried[] = {31, 32, 33, 34, 47, 64};
  const Algorithm<Broadcast> algorithm = as_algorithm<Broadcast>(broadcast_star<kForgets>, all_links);
  const AnyAlgorithm any(algorithm);
  std::set<Rank> found;
  std::map<Rank, std::vector<Case>> by_ranks = cases_by_ranks(any);
  for (const Rank ranks : kTried)
    for (const Case& one : by_ranks[ranks])
      if (one.options.count == 1 && !check::run(one).passed()) found.insert(ranks);
  return found;
}

bool is_above_32(Rank ranks, Rank) { return ranks > 32; }
bool is_of_47(Rank ranks, Rank) { return ranks == 47; }
bool is_root_29(Rank, Rank root) { return root == 29; }
bool is_no_first_root(Rank, Rank root) { return root != 0; }

bool is_never(Rank, Rank) { return false; }

TEST(Grid, finds_nothing_where_there_is_no_mistake) { EXPECT_THAT(found_with<is_never>(), SizeIs(0)); }

TEST(Grid, finds_a_mistake_that_shows_only_from_33_ranks_on) {
  EXPECT_THAT(found_with<is_above_32>(), ElementsAre(33, 34, 47, 64));
}

TEST(Grid, finds_a_mistake_of_one_number_of_ranks) { EXPECT_THAT(found_with<is_of_47>(), ElementsAre(47)); }

TEST(Grid, finds_a_mistake_of_one_root_where_it_has_every_root) {
  EXPECT_THAT(found_with<is_root_29>(), ElementsAre(31, 32, 33, 64));
}

TEST(Grid, finds_a_mistake_of_all_roots_but_the_first) {
  EXPECT_THAT(found_with<is_no_first_root>(), ElementsAre(31, 32, 33, 34, 47, 64));
}

}  // namespace
}  // namespace cohort::test::grid_test
