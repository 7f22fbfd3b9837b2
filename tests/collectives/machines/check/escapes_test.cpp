// SPDX-License-Identifier: Apache-2.0
// Faults that once got past the checker, each by a way of its own; and that the way is the only one that
// finds them.
#include <cohort/collectives/machines/check/suite.h>
#include <cohort/collectives/schedules/blocks.h>
#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/collectives/schedules/placed.h>
#include <cohort/tests/support/wrong_schedules.h>

#include <gmock/gmock.h>

namespace cohort::test {
namespace {

using check::CheckOptions;
using check::FindingKind;
using check::GridReport;
using ::testing::HasSubstr;

GridReport grid_of(const AnyAlgorithm& algorithm, std::vector<Rank> ranks,
                   std::vector<std::size_t> counts = {}) {
  check::CaseFilter filter;
  filter.ranks = std::move(ranks);
  filter.counts = std::move(counts);
  return check::check_all(algorithm, filter);
}

void expect_found_only_with(const GridReport& grid, const char* what, FindingKind kind) {
  ASSERT_FALSE(grid.passed());
  for (const GridReport::Failure& failure : grid.failures) EXPECT_THAT(failure.what, HasSubstr(what));
  const check::Finding& first = grid.failures.front().report.findings.front();
  EXPECT_EQ(to_string(first.kind), to_string(kind)) << first.text;
}

std::string first_of(const check::Report& report) {
  return report.passed() ? "nothing was found" : report.findings.front().text;
}

// A root that goes ahead:

bool meets_again(const Exec&, std::size_t) { return true; }

/// The next rank but the root.
Rank next_giver(const Exec& x, Rank rank, Rank root) {
  const Rank next = (rank + 1) % x.size();
  return next == root ? (next + 1) % x.size() : next;
}

/// Givers carry each other's blocks, and the root takes them from there: right only if all givers have met.
void carry_block(Exec& x, const Gather& op) {
  if (x.rank() == op.root) return;
  const Rank next = next_giver(x, x.rank(), op.root);
  x.perform(x.copy_from(next, x.ccl_out(0, op.send.bytes), x.announced()[next].slice));
}
void take_carried(Exec& x, const Gather& op) {
  if (x.rank() != op.root) return;
  x.perform(x.copy(op.block(op.root), op.send));
  for (const Rank peer : x.peers()) {
    const Slice block = op.block(next_giver(x, peer, op.root));
    x.perform(x.copy_from(peer, block, x.ccl_out(0, block.bytes)));
  }
}
constexpr Algorithm<Gather> kCarried = {.name = "carried",
                                        .scope = Scope::node,
                                        .local = {.announces = Announces::data,
                                                  .combine = carry_block,
                                                  .finish = take_carried,
                                                  .meets_again = meets_again}};

TEST(Escapes, what_is_read_of_ranks_that_nobody_has_waited_for_is_found) {
  CheckOptions options;
  options.count = 100;
  options.goes_ahead = false;
  EXPECT_EQ(check::check(kCarried, options).text(), "");
  options.goes_ahead = true;
  const check::Report report = check::check(kCarried, options);
  EXPECT_THAT(first_of(report), HasSubstr("slot"));
  EXPECT_FALSE(grid_of(kCarried, {3}).passed());
}

// Two that refer alike:

void forget_where_two_refer(Exec& x, const AllGather& op) {
  Rank referring = 0;
  for (Rank rank = 0; rank < x.size(); ++rank) referring += x.has_referred(rank) ? 1 : 0;
  x.perform(x.copy(op.block(x.rank()), op.send));
  for (const Rank peer : x.peers()) {
    const bool is_forgotten = referring == 2 && x.size() > 3 && x.has_referred(peer);
    if (!is_forgotten) x.perform(x.copy_from(peer, op.block(peer), x.announced()[peer].slice));
  }
}

TEST(Escapes, what_is_wrong_where_two_of_many_refer_is_found) {
  const Algorithm<AllGather> algorithm = {
      .name = "forgetful",
      .scope = Scope::node,
      .local = {.announces = Announces::data, .combine = forget_where_two_refer, .may_refer = true}};
  EXPECT_EQ(grid_of(algorithm, {2, 3}).text(), "");
  expect_found_only_with(grid_of(algorithm, {4}), " by reference", FindingKind::contribution);
  check::CaseFilter usual;
  usual.ranks = {4, 5};
  usual.has_every_plan = false;
  EXPECT_EQ(check::check_all(algorithm, usual).text(), "");
}

// Right but for what it does before: all blocks over links to all.
Task<> gather_all(Exec& x, AllGather op) {
  auto with = [&](Rank peer) -> Task<> {
    co_await exchange_slices(x, x.link(peer), op.send, op.block(peer));
  };
  co_await x.fork_join(x.peers(), with);
}

// Scratch of a level, of which nobody has said where it begins:

template <bool kSays>
Task<> through_scratch_of_a_level(Exec& x, AllGather op) {
  Exec& level = x.inside();
  if (kSays) level.use_scratch_from(0);
  const Slice aside = level.scratch(0, op.send.bytes);
  co_await level.copy(aside, op.send);
  co_await level.copy(op.block(x.rank()), aside);
  co_await gather_all(x, op);
}
Needs links_and_scratch(std::size_t bytes, Rank) { return {.links_to_all = true, .scratch_bytes = bytes}; }
template <bool kSays>
constexpr Algorithm<AllGather> kThroughScratch = {.name = "aside",
                                                  .levels = Levels::any_hosts,
                                                  .needs = links_and_scratch,
                                                  .schedule = through_scratch_of_a_level<kSays>};

TEST(Escapes, scratch_of_the_last_operation_is_found) {
  EXPECT_EQ(grid_of(kThroughScratch<true>, {2, 4}, {100}).text(), "");
  const GridReport grid = grid_of(kThroughScratch<false>, {2, 4}, {100});
  ASSERT_FALSE(grid.passed());
  EXPECT_THAT(grid.failures.front().report.text(), HasSubstr("use_scratch_from()"));
}

// Blocks that may lie apart:

/// Rank 0 collects all blocks and hands all of them on at once.
Task<> gather_by_rank_0(Exec& x, AllGather op) {
  const Slice all{WindowId::recv, 0, x.size() * op.stride};
  if (x.rank() != 0) {
    Link& first = x.link(0);
    co_await first.send(op.send);
    co_await first.recv(all);
    co_return;
  }
  co_await x.copy(op.block(0), op.send);
  for (const Rank peer : x.peers()) co_await x.link(peer).recv(op.block(peer));
  for (const Rank peer : x.peers()) co_await x.link(peer).send(all);
}
template <bool kClaims>
constexpr Algorithm<AllGather> kByRank0 = {
    .name = "by_rank_0", .needs = links_to_all, .schedule = gather_by_rank_0, .keeps_to_blocks = kClaims};

TEST(Escapes, a_schedule_that_says_it_keeps_to_blocks_and_does_not_is_found) {
  EXPECT_EQ(grid_of(kByRank0<false>, {3}, {100}).text(), "");
  const GridReport grid = grid_of(kByRank0<true>, {3}, {100});
  ASSERT_FALSE(grid.passed());
  EXPECT_THAT(grid.failures.front().report.text(), HasSubstr("keeps_to_blocks"));
}

// What is unheard beside an empty message:

/// Of nothing, each tells the next one alone.
Task<> tell_the_next(Exec& x, AllGather op) {
  if (!op.send.empty()) {
    co_await x.copy(op.block(x.rank()), op.send);
    co_await gather_all(x, op);
    co_return;
  }
  auto pass = [&]() -> Task<> { co_await x.link(x.ahead(1)).send(op.send); };
  auto take = [&]() -> Task<> { co_await x.link(x.behind(1)).recv(op.block(x.behind(1))); };
  co_await x.fork_join(pass, take);
}

TEST(Escapes, who_is_unheard_beside_an_empty_message_is_found) {
  const Algorithm<AllGather> algorithm = {
      .name = "tells_next", .needs = links_to_all, .schedule = tell_the_next};
  EXPECT_EQ(grid_of(algorithm, {2}).text(), "");
  expect_found_only_with(grid_of(algorithm, {3, 5}), " 0 elements", FindingKind::agreement);
}

// A cost that is right for even counts only:

Task<> gather_all_and_own(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  co_await gather_all(x, op);
}
template <std::size_t kTimesOfUneven>
Cost cost_of_gathering(std::size_t bytes, Rank ranks) {
  const bool is_even = bytes / sizeof(float) % ranks == 0;
  const double moved = static_cast<double>(bytes) * (ranks - 1);
  const double times = is_even ? 1 : kTimesOfUneven;
  const double messages = (ranks - 1.0) * ranks;
  return {.rounds = 1,
          .bytes_moved = moved * times,
          .bytes_copied = static_cast<double>(bytes),
          .messages = messages,
          .bytes_by_all = moved * ranks};
}
template <std::size_t kTimesOfUneven>
constexpr Algorithm<AllGather> kWithCost = {.name = "with_cost",
                                            .cost = cost_of_gathering<kTimesOfUneven>,
                                            .needs = links_to_all,
                                            .schedule = gather_all_and_own};

TEST(Escapes, a_cost_that_is_right_for_even_counts_only_is_found) {
  EXPECT_EQ(grid_of(kWithCost<1>, {3}).text(), "");
  EXPECT_EQ(grid_of(kWithCost<3>, {3}, {120}).text(), "");
  const GridReport grid = grid_of(kWithCost<3>, {3}, {121});
  ASSERT_FALSE(grid.passed());
  EXPECT_THAT(grid.failures.front().report.text(), HasSubstr("let cost() hold for every count"));
}

// Hosts where it is said that none are asked for:

Task<> ask_for_hosts(Exec& x, AllGather op) {
  if (x.hosts().count() == 1) co_await x.copy(op.block(x.rank()), op.send);  // and else forgets it
  co_await gather_all(x, op);
}

TEST(Escapes, a_schedule_that_asks_for_hosts_and_says_that_it_does_not_is_found) {
  const Algorithm<AllGather> algorithm = {.name = "asks", .needs = links_to_all, .schedule = ask_for_hosts};
  const GridReport grid = grid_of(algorithm, {3}, {100});
  ASSERT_FALSE(grid.passed());
  EXPECT_THAT(grid.failures.front().report.text(), HasSubstr("Levels::any_hosts"));
}

// The third chunk of 1 MiB:

Task<> gather_two_chunks(Exec& x, AllGather op) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  co_await x.copy(op.block(x.rank()), op.send);
  for (std::size_t at = 0; at < std::min(op.send.bytes, 2 * kChunk); at += kChunk)
    co_await gather_all(x, op.part(at, std::min(kChunk, op.send.bytes - at)));
  if (op.send.empty()) co_await gather_all(x, op);
}

TEST(Escapes, the_third_chunk_of_a_large_share_is_found_missing) {
  const Algorithm<AllGather> algorithm = {
      .name = "two_chunks", .needs = links_to_all, .schedule = gather_two_chunks};
  expect_found_only_with(grid_of(algorithm, {4}), "2162709 elements", FindingKind::contribution);
}

// Bytes:

Task<> gather_words(Exec& x, AllGather op) {
  const std::size_t words = op.send.bytes / 4 * 4;
  co_await x.copy(op.block(x.rank()), op.send);
  co_await gather_all(x, op.part(0, words));
}

TEST(Escapes, what_moves_whole_words_only_is_found) {
  const Algorithm<AllGather> algorithm = {.name = "words", .needs = links_to_all, .schedule = gather_words};
  expect_found_only_with(grid_of(algorithm, {4, 5, 6}), "uint8", FindingKind::contribution);
}

// The first rank full, another one empty:

/// Blocks of nobody are skipped, and with them, behind a first one that is full, the phase.
Task<> gather_unequal(Exec& x, AllGatherV op) {
  bool is_any_empty = false;
  for (Rank rank = 1; rank < x.size(); ++rank) is_any_empty = is_any_empty || op.block(rank).empty();
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.copy(mine, op.send);
  if (op.block(0).empty() || !is_any_empty) co_await x.phase();
  for (const Rank peer : x.peers())
    co_await x.copy_from(peer, op.block(peer), x.ccl_out(0, op.block(peer).bytes));
}

TEST(Escapes, what_is_wrong_where_the_first_rank_is_full_and_another_empty_is_found) {
  const Algorithm<AllGatherV> algorithm = {
      .name = "unequal", .scope = Scope::node, .schedule = gather_unequal};
  expect_found_only_with(grid_of(algorithm, {2, 5}, {100}), " at most: 100, 0", FindingKind::conflict);
}

}  // namespace
}  // namespace cohort::test
