// SPDX-License-Identifier: Apache-2.0
// What the checker itself promises: the same verdict in whatever order streams run and whatever links buffer,
// at a cost that does not depend on counts.
#include <cohort/collectives/machines/check/suite.h>
#include <cohort/collectives/schedules/links/by_carrying.h>
#include <cohort/engine/error.h>
#include <cohort/tests/support/planted_faults.h>
#include <cohort/tests/support/schedules.h>
#include <cohort/tests/support/wrong_phases.h>
#include <cohort/tests/support/wrong_schedules.h>

#include <gmock/gmock.h>

namespace cohort::test::check_test {
namespace {

using check::Case;
using check::CheckOptions;
using check::FindingKind;
using check::Report;
using ::testing::HasSubstr;

constexpr std::uint64_t kSeeds = 40;

/// Rank 0 tells the first rank of each other host; these tell the others of their hosts.
Task<> broadcast_by_hosts(Exec& x, Broadcast op) {
  const Hosts& hosts = x.hosts();
  const std::span<const Rank> host = x.ranks_of_host();
  const bool is_first = x.rank() == host.front();
  Link* const teller = x.rank() == 0 ? nullptr : &x.link(is_first ? 0 : host.front());
  if (teller != nullptr) co_await teller->recv(op.data);
  for (Rank other = 1; x.rank() == 0 && other < hosts.count(); ++other)
    co_await x.link(hosts.first_of(other)).send(op.data);
  for (const Rank rank : is_first ? host.subspan(1) : std::span<const Rank>{})
    co_await x.link(rank).send(op.data);
}

/// The same, on levels.
Task<> broadcast_by_levels(Exec& x, Broadcast op) {
  Exec& inside = x.inside();
  Exec& across = x.across();
  if (x.rank() != 0) {
    Exec& level = inside.rank() == 0 ? across : inside;
    co_await level.link(0).recv(op.data);
  }
  if (inside.rank() != 0) co_return;
  if (across.rank() == 0)
    for (const Rank peer : across.peers()) co_await across.link(peer).send(op.data);
  for (const Rank peer : inside.peers()) co_await inside.link(peer).send(op.data);
}

TEST(Check, schedules_are_told_who_shares_a_host) {
  const auto needs = [](std::size_t, Rank) { return Needs{.links_to_all = true}; };
  const std::vector<std::vector<Rank>> hosts = {{},
                                                {0, 1, 2, 3, 4, 5, 6, 7},
                                                {0, 0, 1, 1, 2, 2, 3, 3},
                                                {0, 0, 0, 1, 1, 1, 2, 2},
                                                {2, 1, 0, 2, 1, 0, 2, 1}};
  for (const std::vector<Rank>& host_of : hosts) {
    for (const auto schedule : {broadcast_by_hosts, broadcast_by_levels}) {
      CheckOptions options;
      options.ranks = 8;
      options.host_of = host_of;
      options.checks_cost = false;
      Algorithm<Broadcast> algorithm = test::as_algorithm<Broadcast>(schedule, needs);
      algorithm.levels = Levels::any_hosts;
      const Report report = check::check(algorithm, options);
      for (const check::Finding& finding : report.findings)  // nobody answers
        EXPECT_EQ(finding.kind, FindingKind::agreement) << report.text();
    }
  }
}

/// As if networks were alike.
template <auto kCost>
Cost of_equal_shares(std::size_t bytes, const Hosts& hosts) {
  return kCost(bytes, hosts.with_bandwidths(std::vector<std::uint32_t>(hosts.count(), 1)));
}

TEST(Check, costs_are_those_of_the_shares_that_hosts_have) {
  CheckOptions options;
  options.ranks = 5;
  options.count = 3600;
  options.host_of = {0, 0, 1, 2, 2};
  options.bandwidths = {3, 1, 6};
  const auto expect = [&](auto algorithm, auto equal) {
    const AnyAlgorithm right = algorithm;
    EXPECT_EQ(check::check(right, options).text(), "") << to_string(right.op());
    algorithm.cost = equal;
    const Report report = check::check(algorithm, options);
    EXPECT_THAT(report.text(), HasSubstr("cost() declares bytes moved")) << to_string(right.op());
  };
  expect(Algorithm<AllReduce>{.name = "shares",
                              .levels = Levels::any_hosts,
                              .cost = carrying::cost_of_all_reduce,
                              .needs = carrying::needs_of_vector,
                              .schedule = carrying::all_reduce},
         of_equal_shares<carrying::cost_of_all_reduce>);
  expect(Algorithm<Broadcast>{.name = "shares",
                              .levels = Levels::any_hosts,
                              .cost = carrying::cost_of_broadcast,
                              .needs = carrying::needs_of_vector,
                              .schedule = carrying::broadcast},
         of_equal_shares<carrying::cost_of_broadcast>);
  expect(Algorithm<Reduce>{.name = "shares",
                           .levels = Levels::any_hosts,
                           .cost = carrying::cost_of_reduce,
                           .needs = carrying::needs_of_vector,
                           .schedule = carrying::reduce},
         of_equal_shares<carrying::cost_of_reduce>);
}

TEST(Check, right_schedules_pass_in_whatever_order_streams_run) {
  check::CaseFilter filter;
  filter.ranks = {4, 5};
  filter.counts = {1000};
  filter.root = 1;
  for (Case one : check::cases(filter)) {
    const Report first = check::run(one);
    for (one.options.seed = 1; one.options.seed <= kSeeds; ++one.options.seed) {
      const Report report = check::run(one);
      EXPECT_EQ(report.text(), "") << check::describe(one) << ", seed " << one.options.seed;
      EXPECT_EQ(report.counted.rounds, first.counted.rounds);
      EXPECT_EQ(report.counted.bytes_to_all, first.counted.bytes_to_all);
      EXPECT_EQ(report.tasks, first.tasks);
    }
  }
}

TEST(Check, wrong_schedules_are_caught_in_whatever_order_streams_run) {
  for (const WrongSchedule& one : wrong_schedules()) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      CheckOptions options;
      options.seed = seed;
      EXPECT_FALSE(one.run(options).passed()) << one.mistake << ", seed " << seed;
    }
  }
}

TEST(Check, ccl_buffers_within_a_node_are_left_to_peers) {
  CheckOptions options;
  options.runs_each_operation = true;
  options.operations = 3;
  for (options.seed = 0; options.seed <= kSeeds; ++options.seed)
    EXPECT_EQ(test::published_in_one_place(options).text(), "") << "seed " << options.seed;
}

TEST(Check, planted_faults_are_caught_in_whatever_order_streams_run) {
  for (const PlantedFault& one : planted_faults())
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
      EXPECT_FALSE(one.run(true, seed).passed()) << one.schedule << ", " << one.fault << ", seed " << seed;
}

TEST(Check, right_schedules_pass_on_links_that_buffer_everything) {
  check::CaseFilter filter;
  filter.ranks = {4};  // above 3 none has more than 2^32 elements, of which chunks take seconds
  for (Case one : check::cases(filter)) {
    one.options.is_eager = true;
    EXPECT_EQ(check::run(one).text(), "") << check::describe(one);
  }
}

Task<> send_first(Exec& x, Broadcast op) {
  Link& peer = x.link(x.ahead(1));
  const Slice theirs = x.scratch(0, op.data.bytes);
  co_await peer.send(op.data);
  co_await peer.recv(theirs);
  if (x.rank() != op.root) co_await x.copy(op.data, theirs);
}

TEST(Check, what_ends_only_on_links_that_buffer_is_said_to) {
  CheckOptions options;
  options.ranks = 2;
  const Report report = test::check_schedule<Broadcast>(send_first, all_links, options);
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.findings.front().kind, FindingKind::deadlock);
  EXPECT_THAT(report.findings.front().text, HasSubstr("it ends only where links buffer whatever is sent"));
  options.is_eager = true;
  EXPECT_EQ(test::check_schedule<Broadcast>(send_first, all_links, options).text(), "");
}

Task<> tell_itself(Exec& x) {
  LocalNotify done = x.notify();
  done.post();
  co_await done.wait();
}

/// The frame of the first stream's notify is that of the second one's, too.
Task<> notifies_in_a_recycled_frame(Exec& x, Barrier) {
  auto meet = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await tell_itself(x);
    co_await link.post(Signal::Ack);
    co_await link.wait(Signal::Ack);
  };
  co_await x.fork_join(x.peers(), meet);
}

TEST(Check, a_notify_where_another_one_lay_is_another_one) {
  const Report report =
      test::check_schedule<Barrier>(notifies_in_a_recycled_frame, all_links, CheckOptions());
  EXPECT_EQ(report.text(), "");
}

/// Two tokens in a row: lost on a flag, right where signals count to two.
Task<> two_tokens(Exec& x, Barrier) {
  for (int token = 0; token < 2; ++token)
    for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (int token = 0; token < 2; ++token)
    for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
}

TEST(Check, a_limit_of_untaken_posts_tells_flags_from_counters) {
  CheckOptions options;
  const Algorithm<Barrier> algorithm = test::as_algorithm<Barrier>(two_tokens, all_links);
  const Report as_flags = check::check(algorithm, options);
  ASSERT_FALSE(as_flags.passed());
  EXPECT_EQ(as_flags.findings.front().kind, FindingKind::notify);
  options.untaken_posts = 2;
  EXPECT_EQ(check::check(algorithm, options).text(), "");
}

TEST(Check, bare_flags_are_reused_by_the_next_operation_only_when_taken) {
  CheckOptions options;
  EXPECT_EQ(check::check(test::library<Barrier>("one_shot"), options).text(), "");
  options.tags_signals = false;
  const Report report = check::check(test::library<Barrier>("one_shot"), options);
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.findings.front().kind, FindingKind::notify);
  EXPECT_THAT(report.findings.front().text, HasSubstr("of operation 2 in a row"));
  EXPECT_EQ(check::check(test::library<AllGather>("mesh"), options).text(), "");
}

std::size_t a_block_of_ccl_in(std::size_t buffer_bytes, Rank ranks) { return buffer_bytes / ranks; }

TEST(Check, a_grid_of_cases_for_a_schedule_of_ones_own) {
  Algorithm<AllGather> algorithm = test::as_algorithm<AllGather>(all_gather_by_put, all_links);
  check::CaseFilter filter;
  filter.ranks = {2, 3, 5};
  const check::GridReport broken = check::check_all(algorithm, filter);
  ASSERT_FALSE(broken.passed()) << "messages above the buffers are not cut";
  EXPECT_THAT(broken.text(), HasSubstr("which has"));
  algorithm.largest_piece = a_block_of_ccl_in;
  const check::GridReport report = check::check_all(algorithm, filter);
  EXPECT_EQ(report.text(), "");
  EXPECT_GE(report.cases, 3 * 2 * 8U);
  filter.op = operator_of<Barrier>;
  EXPECT_FALSE(check::check_all(algorithm, filter).passed()) << "nothing was checked";
}

/// Nobody meets for an empty message: what else goes between the two must not run ahead of it by more than a
/// piece.
TEST(Check, ranks_with_nothing_in_a_large_message_keep_up_with_its_pieces) {
  for (const Rank ranks : {2U, 3U}) {
    std::vector<std::size_t> counts(ranks);
    counts.back() = 300'000;
    CheckOptions options{.ranks = ranks, .count = counts.back(), .root = ranks - 1};
    options.counts = counts;
    options.reduce = ReduceOp::sum;
    options.piece_bytes = std::size_t{300} << 10;
    options.untaken_posts = 2;
    for (const char* const name : {"one_shot", "tree"}) {
      EXPECT_EQ(check::check(test::library<GatherV>(name), options).text(), "") << name << ", " << ranks;
      EXPECT_EQ(check::check(test::library<ScatterV>(name), options).text(), "") << name << ", " << ranks;
    }
  }
}

TEST(Check, costs_do_not_depend_on_counts) {
  for (const std::size_t count : {std::size_t{1000}, std::size_t{1} << 40}) {
    check::CaseFilter filter;
    filter.op = operator_of<AllReduce>;
    filter.algorithm = "ring";
    filter.ranks = {7};
    filter.counts = {count};
    for (const Case& one : check::cases(filter)) {
      const Report report = check::run(one);
      EXPECT_EQ(report.text(), "") << check::describe(one);
      if (one.options.piece_bytes != CheckOptions().piece_bytes) continue;
      EXPECT_EQ(report.tasks, 7 * (1 + 2 * 2 * 6 + 1 + 2U)) << check::describe(one);
    }
  }
}

TEST(Check, counts_what_one_operation_moves) {
  const AnyAlgorithm& ring = test::library<AllReduce>("ring");
  CheckOptions options;
  options.ranks = 8;
  options.count = 8 * 100;
  const Report report = check::check(ring, options);
  EXPECT_EQ(report.text(), "");
  EXPECT_EQ(report.counted.rounds, 14U);
  EXPECT_EQ(report.counted.bytes_sent, 14U * 400);
  EXPECT_EQ(report.counted.bytes_combined, 7U * 400);
  EXPECT_EQ(report.counted.bytes_to_all, report.counted.least_to_all);
  EXPECT_FALSE(report.combines_in_rank_order);
}

/// A promise of less is no mistake.
TEST(Check, holds_an_algorithm_to_the_order_that_it_says_and_to_no_other) {
  const AnyAlgorithm& ring = test::library<AllReduce>("ring");
  EXPECT_EQ(ring.order(), ReductionOrder::fixed);
  const AnyAlgorithm& mesh = test::library<AllReduce>("mesh");
  EXPECT_EQ(mesh.order(), ReductionOrder::by_rank_at_once);
  const AnyAlgorithm& scan = test::library<Scan>("mesh");
  EXPECT_EQ(scan.order(), ReductionOrder::by_rank);
  for (const ReduceOp reduce : {ReduceOp::sum, ReduceOp::avg}) {
    CheckOptions options;
    options.reduce = reduce;
    for (options.ranks = 2; options.ranks < 6; ++options.ranks) {
      EXPECT_TRUE(check::check(mesh, options).combines_at_once) << options.ranks;
      EXPECT_TRUE(check::check(scan, options).combines_in_rank_order) << options.ranks;
      EXPECT_EQ(check::check(scan, options).combines_at_once, options.ranks == 2 && reduce == ReduceOp::sum);
      EXPECT_EQ(check::check(ring, options).text(), "");
    }
  }
}

TEST(Check, refuses_options_that_make_no_sense) {
  const Algorithm<Barrier> algorithm = test::as_algorithm<Barrier>(two_tokens, all_links);
  const auto refuses = [&](auto change) {
    CheckOptions options;
    change(options);
    EXPECT_THROW((void)check::check(algorithm, options), Error);
  };
  refuses([](CheckOptions& options) { options.ranks = 1; });
  refuses([](CheckOptions& options) { options.root = options.ranks; });
  refuses([](CheckOptions& options) { options.operations = 0; });
  refuses([](CheckOptions& options) { options.untaken_posts = 0; });
  refuses([](CheckOptions& options) { options.user_windows = UserWindows::mapped; });
}

}  // namespace
}  // namespace cohort::test::check_test
