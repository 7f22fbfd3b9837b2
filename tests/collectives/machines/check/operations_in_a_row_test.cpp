// SPDX-License-Identifier: Apache-2.0
// One operation that is said to prove those that follow it does: so says a run of all of them.
#include <cohort/collectives/machines/check/mutants.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/support/schedules.h>
#include <cohort/tests/support/wrong_schedules.h>

#include <gtest/gtest.h>

namespace cohort::test::operations_in_a_row_test {
namespace {

using check::Case;
using check::CheckOptions;
using check::Report;
using check::TaskPlace;
using check::TaskRequest;

/// A prime, so that no rank, task or kind of change is always left out.
constexpr std::size_t kStride = sanitizers::kAddress ? 397 : 61;

constexpr std::size_t kStrideOfCases = 5;

/// The same change in each operation: of a schedule, not of one run of it.
check::Fault in_each_operation(const check::Fault& fault) {
  return [&fault](TaskPlace place, TaskRequest& request) {
    place.operation = 1;
    return fault(place, request);
  };
}

/// A Notify is another one in each operation, so that a wait for it cannot be moved into another one's place.
bool moves_a_notify(const check::Mutant& mutant) {
  const auto is_of_notify = [](const check::TaskRecord& task) {
    return task.kind == check::TaskKind::notify_post || task.kind == check::TaskKind::notify_wait;
  };
  const bool is_moved = is_of_notify(mutant.task) || is_of_notify(mutant.changed);
  return mutant.kind == check::ChangeKind::swap && is_moved;
}

/// How many changes of the schedule pass alone, and prove so what follows. None may be found wrong in a row.
std::size_t proved_mutants_of(const Case& one) {
  std::size_t proved = 0;
  const std::vector<check::Mutant> mutants = check::mutants_of(one);
  for (std::size_t i = 0; i < mutants.size(); i += kStride) {
    if (moves_a_notify(mutants[i])) continue;
    const check::Fault fault = in_each_operation(mutants[i].fault);
    CheckOptions options = one.options;
    options.explains_deadlocks = false;
    options.operations = 1;
    options.staged_by_each = 0;  // what is changed stays in one place
    const Report first = check::check(*one.algorithm, options, &fault);
    if (!first.passed() || !first.holds_in_a_row) continue;
    ++proved;
    options.operations = 3;
    EXPECT_EQ(check::check(*one.algorithm, options, &fault).text(), "")
        << check::describe(one) << ": " << mutants[i].text;
  }
  return proved;
}

TEST(OperationsInARow, are_proved_by_the_first_where_it_says_so) {
  check::CaseFilter filter;
  filter.ranks = {3, 4};
  std::size_t proved = 0;
  for (const Case& one : check::cases_for_mutants(filter)) proved += proved_mutants_of(one);
  EXPECT_GT(proved, 100U);
}

TEST(OperationsInARow, of_the_library_are_all_proved_by_the_first) {
  check::CaseFilter filter;
  filter.ranks = {1, 5, 6};
  const std::vector<Case> all = check::cases(filter);
  for (std::size_t i = 0; i < all.size(); i += kStrideOfCases) {
    Case one = all[i];
    one.options.operations = 1;
    one.options.goes_ahead = false;  // of those that do, all are run
    EXPECT_TRUE(check::run(one).holds_in_a_row) << check::describe(one);
  }
}

/// The root is answered too early: its next put may come before this one was copied.
Task<> put_unasked(Exec& x, Broadcast op) {
  Link& peer = x.link(x.ahead(1));
  const Slice arrived = x.ccl_in(0, op.data.bytes);
  if (x.rank() == op.root) {
    co_await peer.put(op.data, arrived, Signal::DataSignal);
    co_await peer.wait(Signal::Ack);
    co_return;
  }
  co_await peer.wait(Signal::DataSignal);
  co_await peer.post(Signal::Ack);
  co_await x.copy(op.data, arrived);
}

TEST(OperationsInARow, are_run_where_the_first_does_not_prove_them) {
  const Algorithm<Broadcast> algorithm = as_algorithm<Broadcast>(put_unasked, all_links);
  CheckOptions options;
  options.ranks = 2;
  options.operations = 1;
  const Report alone = check::check(algorithm, options);
  EXPECT_EQ(alone.text(), "");
  EXPECT_FALSE(alone.holds_in_a_row);
  options.operations = 2;
  const Report in_a_row = check::check(algorithm, options);
  ASSERT_FALSE(in_a_row.passed());
  EXPECT_EQ(in_a_row.findings.front().kind, check::FindingKind::conflict) << in_a_row.text();
}

}  // namespace
}  // namespace cohort::test::operations_in_a_row_test
