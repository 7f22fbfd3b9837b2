// SPDX-License-Identifier: Apache-2.0
// Schedules that are wrong on some HostPlan only: the grid has it, and one plan alone would let them pass.
#include <cohort/collectives/machines/check/suite.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/schedules/placed.h>

#include <gmock/gmock.h>

#include <functional>

namespace cohort::test {
namespace {

using check::FindingKind;
using check::GridReport;
using ::testing::HasSubstr;

constexpr std::size_t kFaultsAtLeast = 12;

bool always(const HostPlan&) { return true; }
bool on_shared_cores(const HostPlan& plan) { return plan.cores == CoreSupply::shared; }
bool on_idle_cores(const HostPlan& plan) { return plan.cores == CoreSupply::idle; }
bool without_rings(const HostPlan& plan) { return !plan.goes_round; }
bool in_every_other_call(const HostPlan& plan) { return plan.staged_calls % 2 == 1; }
bool from_the_fifth_call_on(const HostPlan& plan) { return plan.staged_calls >= 4; }
bool behind_a_call(const HostPlan& plan) { return plan.staged_calls != 0; }

/// What goes wrong in an all_gather through stages, where the plan is like that.
enum class Mistake : std::uint8_t {
  none,
  no_phase,
  one_place,            ///< for all pieces
  beyond_the_ring,      ///< places that go on where it ends
  rank_0_counts_apart,  ///< and so leaves its pieces in another place
  cut_by_buffer,        ///< pieces as far from each other as if the stage were all of it
  no_last_piece,
};
using When = bool (*)(const HostPlan&);

std::size_t place_of(Exec& x, const Staging& staging, std::size_t k, Mistake mistake, Rank of) {
  switch (mistake) {
    case Mistake::one_place: return staging.place(0);
    case Mistake::beyond_the_ring: return staging.place(k) + x.plan().staged_calls * x.ccl_bytes();
    case Mistake::rank_0_counts_apart: return staging.place(of == 0 ? k + 1 : k);
    default: return staging.place(k);
  }
}

template <Mistake kMistake, When kWhen>
Task<> all_gather_in_stages(Exec& x, AllGather op) {
  const Mistake mistake = kWhen(x.plan()) ? kMistake : Mistake::none;
  const Staging staging(x, op.send.bytes, op.element_bytes);
  const bool leaves_one_out = mistake == Mistake::no_last_piece && staging.pieces() > 5;
  const std::size_t pieces = staging.pieces() - (leaves_one_out ? 1 : 0);
  const std::size_t apart = x.ccl_bytes() / 2 / 64 * 64 / op.element_bytes * op.element_bytes;
  co_await x.copy(op.block(x.rank()), op.send);
  for (std::size_t k = 0; k < pieces; ++k) {
    const std::size_t offset = mistake == Mistake::cut_by_buffer ? k * apart : staging.offset(k);
    const AllGather piece = op.part(offset, staging.bytes(k));
    const Slice mine = x.ccl_out(place_of(x, staging, k, mistake, x.rank()), piece.send.bytes);
    co_await x.copy(mine, piece.send);
    if (mistake != Mistake::no_phase) co_await x.phase();
    for (const Rank peer : x.peers()) {
      const Slice theirs = x.ccl_out(place_of(x, staging, k, mistake, x.rank()), piece.send.bytes);
      co_await x.copy_from(peer, piece.block(peer), theirs);
    }
  }
}

/// The kernel copies, and where the plan is like that nobody waits for the others before it leaves.
template <When kWhen>
Task<> all_gather_pulled(Exec& x, AllGather op) {
  if (!x.plan().reaches()) {
    co_await all_gather_in_stages<Mistake::none, always>(x, op);
    co_return;
  }
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers()) co_await x.pull(peer, op.block(peer), op.send);
  if (!kWhen(x.plan())) co_await x.phase();
}

/// One rank publishes, and where the plan is like that others take before they know that it has.
template <When kWhen>
Task<> broadcast_in_stages(Exec& x, Broadcast op) {
  const Staging staging = Staging::of_root(x, op.data.bytes, op.element_bytes);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const Slice piece = op.data.part(staging.offset(k), staging.bytes(k));
    const Slice published = x.ccl_out(staging.place(k), piece.bytes);
    const bool waits = !kWhen(x.plan()) || k == 0;
    if (x.rank() == op.root) co_await x.copy(published, piece);
    if (waits) co_await x.phase();
    if (x.rank() != op.root) co_await x.copy_from(op.root, piece, published);
  }
}

/// In slots, and where the plan is like that from the last rank to the first.
template <When kWhen>
void combine_from_behind(Exec& x, const AllReduce& op) {
  std::vector<PlacedSlice> inputs(x.announced().begin(), x.announced().end());
  if (kWhen(x.plan())) std::ranges::reverse(inputs);
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  x.perform(x.reduce(output, inputs, op.combine));
}
/// The same, undivided.
template <When kWhen>
void combine_undivided(Exec& x, const AllReduce& op) {
  Combine combine = op.combine;
  if (kWhen(x.plan())) combine.average_over = 0;
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  x.perform(x.reduce(output, x.announced(), combine));
}
/// With the others' phase left out.
template <When kWhen>
Task<> reduce_apart(Exec& x, AllReduce op) {
  const Staging staging(x, op.send.bytes, op.element_bytes);
  for (std::size_t k = 0; k < staging.pieces(); ++k) {
    const AllReduce piece = op.part(staging.offset(k), staging.bytes(k));
    const Slice mine = x.ccl_in(staging.place(k), piece.send.bytes);
    co_await x.copy(mine, piece.send);
    co_await x.phase();
    const Placed inputs(x, mine);
    std::vector<PlacedSlice> in_order(inputs.slices().begin(), inputs.slices().end());
    if (kWhen(x.plan())) std::ranges::reverse(in_order);
    const PlacedSlice output[] = {{x.rank(), piece.recv}};
    co_await x.reduce(output, in_order, piece.combine);
  }
}

template <class Op>
Algorithm<Op> within_a_node(Task<> (*schedule)(Exec&, Op)) {
  return {.name = "a schedule",
          .scope = Scope::node,
          .order = ReductionOrder::by_rank_at_once,
          .schedule = schedule};
}
Algorithm<AllReduce> in_slots(void (*combine)(Exec&, const AllReduce&)) {
  return {.name = "a schedule",
          .scope = Scope::node,
          .order = ReductionOrder::by_rank_at_once,
          .local = {.announces = Announces::data, .combine = combine}};
}

GridReport run_grid(const AnyAlgorithm& algorithm, bool has_every_plan) {
  check::CaseFilter filter;
  filter.ranks = {2, 3, 5};
  filter.has_every_plan = has_every_plan;
  return check::check_all(algorithm, filter);
}

struct PlanFault {
  const char* fault;
  std::function<GridReport(bool has_every_plan)> run;
  FindingKind kind;
  const char* plan;  ///< what the cases that fail are described as, all of them
};

template <class Op>
PlanFault staged(const char* fault, Task<> (*schedule)(Exec&, Op), FindingKind kind, const char* plan) {
  const auto run = [schedule](bool has_every_plan) {
    const Algorithm<Op> algorithm = within_a_node<Op>(schedule);
    return run_grid(algorithm, has_every_plan);
  };
  return {fault, run, kind, plan};
}
PlanFault local(const char* fault, void (*combine)(Exec&, const AllReduce&), FindingKind kind,
                const char* plan) {
  const auto run = [combine](bool has_every_plan) {
    const Algorithm<AllReduce> algorithm = in_slots(combine);
    return run_grid(algorithm, has_every_plan);
  };
  return {fault, run, kind, plan};
}

std::vector<PlanFault> plan_faults() {
  using enum Mistake;
  return {
      staged("no phase on shared cores", all_gather_in_stages<no_phase, on_shared_cores>,
             FindingKind::conflict, "shared cores"),
      staged("no phase on idle cores", all_gather_in_stages<no_phase, on_idle_cores>, FindingKind::conflict,
             "idle cores"),
      staged("no phase in every other call", all_gather_in_stages<no_phase, in_every_other_call>,
             FindingKind::conflict, "staged calls"),
      staged("no phase from the fifth call on", all_gather_in_stages<no_phase, from_the_fifth_call_on>,
             FindingKind::conflict, "behind 4 staged calls"),
      staged("one place for all pieces without rings", all_gather_in_stages<one_place, without_rings>,
             FindingKind::conflict, "no rings"),
      staged("places beyond the ring's end", all_gather_in_stages<beyond_the_ring, always>,
             FindingKind::bounds, "staged calls"),
      staged("one rank counts calls apart", all_gather_in_stages<rank_0_counts_apart, behind_a_call>,
             FindingKind::contribution, "staged calls"),
      staged("pieces cut by the buffer", all_gather_in_stages<cut_by_buffer, always>, FindingKind::bounds,
             "stages of"),
      staged("the sixth piece and those after it", all_gather_in_stages<no_last_piece, always>,
             FindingKind::contribution, "stages of"),
      staged("no last phase on shared cores where the kernel copies", all_gather_pulled<on_shared_cores>,
             FindingKind::conflict, "shared cores"),
      staged("a root that waits once on shared cores", broadcast_in_stages<on_shared_cores>,
             FindingKind::conflict, "shared cores"),
      staged("a root that waits once behind other calls", broadcast_in_stages<behind_a_call>,
             FindingKind::conflict, "staged calls"),
      staged("in stages, another order on shared cores", reduce_apart<on_shared_cores>,
             FindingKind::reduction, "shared cores"),
      staged("in stages, another order without rings", reduce_apart<without_rings>, FindingKind::reduction,
             "no rings"),
      local("in slots, another order on shared cores", combine_from_behind<on_shared_cores>,
            FindingKind::reduction, "shared cores"),
      local("in slots, no division on idle cores", combine_undivided<on_idle_cores>,
            FindingKind::contribution, "idle cores"),
  };
}

TEST(HostPlans, of_faults_are_many) { EXPECT_GE(plan_faults().size(), kFaultsAtLeast); }

TEST(HostPlans, of_one_kind_let_each_fault_pass) {
  for (const PlanFault& one : plan_faults()) EXPECT_EQ(one.run(false).text(), "") << one.fault;
}

TEST(HostPlans, of_the_grid_find_each_fault_where_it_is) {
  for (const PlanFault& one : plan_faults()) {
    const GridReport grid = one.run(true);
    ASSERT_FALSE(grid.passed()) << one.fault;
    const check::Finding& first = grid.failures.front().report.findings.front();
    EXPECT_EQ(to_string(first.kind), to_string(one.kind)) << one.fault << "\n" << first.text;
    for (const GridReport::Failure& failure : grid.failures)
      EXPECT_THAT(failure.what, HasSubstr(one.plan)) << one.fault;
  }
}

TEST(HostPlans, are_no_fault_of_what_is_right_on_all_of_them) {
  const Algorithm<AllGather> staged = within_a_node<AllGather>(all_gather_in_stages<Mistake::none, always>);
  EXPECT_EQ(run_grid(staged, true).text(), "");
}

/// The grid stays one that `cohort check --all` goes through in minutes.
TEST(HostPlans, make_the_grid_little_larger) {
  check::CaseFilter filter;
  filter.ranks = {8, 40};
  const std::size_t with_all = check::cases(filter).size();
  filter.has_every_plan = false;
  const std::size_t with_one = check::cases(filter).size();
  EXPECT_GT(with_all, with_one);
  EXPECT_LT(with_all, with_one * 5 / 4);
}

TEST(HostPlans, go_on_from_one_operation_to_the_next) {
  const Algorithm<AllGather> wrong =
      within_a_node<AllGather>(all_gather_in_stages<Mistake::no_phase, in_every_other_call>);
  check::CheckOptions options;
  EXPECT_EQ(check::check(wrong, options).text(), "");
  options.runs_each_operation = true;
  EXPECT_THAT(check::check(wrong, options).text(), HasSubstr("of operation 2 in a row"));
}

}  // namespace
}  // namespace cohort::test
