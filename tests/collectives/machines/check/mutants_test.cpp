// SPDX-License-Identifier: Apache-2.0
// A sample of `cohort check --mutants`: what is changed in one task of a schedule is found, or makes no
// difference.
#include <cohort/collectives/machines/check/known_survivors.h>
#include <cohort/collectives/machines/check/mutants.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/support/schedules.h>
#include <cohort/tests/support/wrong_schedules.h>

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

namespace cohort::test::mutants_test {
namespace {

using check::Case;
using check::ChangeKind;
using check::MutantReport;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A prime, so that no rank, task or kind of change is always left out. A sanitizer sees the same code with
/// every mutant.
constexpr std::size_t kStride = sanitizers::kAddress ? 307 : 61;

Case case_of(const AnyAlgorithm& algorithm, Rank ranks) {
  Case one{&algorithm, {}};
  one.options.ranks = ranks;
  one.options.count = check::kEvenPerRank * ranks;
  return one;
}

TEST(Mutants, of_the_library_are_caught_or_equivalent) {
  check::CaseFilter filter;
  filter.ranks = {2, 3, 5};
  for (const Case& one : check::cases_for_mutants(filter)) {
    const MutantReport report = check::run_mutants(one, kStride);
    EXPECT_TRUE(report.survivors.empty()) << fmt::format("{}", fmt::join(report.survivors, "\n"));
  }
}

TEST(Mutants, are_made_of_even_and_uneven_cases_of_one_piece_and_two_and_both_roots) {
  check::CaseFilter filter;
  filter.op = operator_of<Broadcast>;
  filter.algorithm = "ring";
  filter.ranks = {3};
  std::set<std::tuple<bool, std::size_t, Rank>> kinds;
  for (const Case& one : check::cases_for_mutants(filter)) {
    const std::size_t bytes = one.options.count * size_bytes(one.options.type);
    const std::size_t piece = piece_bytes(bytes, size_bytes(one.options.type), one.options.piece_bytes);
    const std::size_t pieces = (bytes + piece - 1) / piece;
    kinds.emplace(one.options.count % 3 == 0, pieces, one.options.root);
  }
  using Kinds = std::set<std::tuple<bool, std::size_t, Rank>>;
  EXPECT_EQ(kinds, (Kinds{{true, 1, 2}, {false, 1, 0}, {false, 2, 0}}));
}

TEST(Mutants, of_one_schedule_are_all_caught) {
  const MutantReport report = check::run_mutants(case_of(library<AllGather>("mesh"), 3));
  EXPECT_GT(report.caught, 300U);
  EXPECT_EQ(report.survivors.size(), 0U);
}

TEST(Mutants, that_survive_stand_in_the_docs_with_the_reason) {
  std::ifstream file(std::string(COHORT_TEST_SOURCE_DIR) + "/docs/generated/planted-faults.md");
  std::ostringstream docs;
  docs << file.rdbuf();
  for (const check::KnownSurvivor& known : check::known_survivors()) {
    std::vector<std::string_view> kinds;
    for (const ChangeKind kind : known.kinds) kinds.push_back(to_string(kind));
    EXPECT_THAT(docs.str(), ::testing::HasSubstr(fmt::format(
                                "| {} {} | {} | {} | {} |\n", fmt::join(known.ops, ", "), known.algorithm,
                                fmt::join(kinds, ", "), check::short_name(known.task), known.reason)));
  }
}

/// The swaps of a task with the phase after it, by what that task is, that are known to be right.
std::vector<std::string> known_swaps_with_the_phase(Operator op, check::Referring referring) {
  check::CaseFilter filter;
  filter.op = op;
  filter.algorithm = "slots";
  filter.ranks = {3};
  filter.counts = {120};
  std::vector<std::string> known;
  for (const Case& one : check::cases(filter)) {
    if (one.options.referring != referring || one.options.is_in_place) continue;
    for (const check::Mutant& mutant : check::mutants_of(one)) {
      const bool is_phase = mutant.kind == ChangeKind::swap && mutant.changed.kind == check::TaskKind::phase;
      if (is_phase && check::is_known_survivor(one, mutant))
        known.push_back(fmt::format("rank {}: {}", mutant.task.rank, check::describe(mutant.task)));
    }
  }
  return known;
}

TEST(Mutants, that_are_known_to_be_right_are_those_of_who_alone_refers_or_reads_a_slot) {
  using check::Referring;
  EXPECT_THAT(known_swaps_with_the_phase(operator_of<AllReduce>, Referring::rank_0),
              ElementsAre("rank 0: reduce 3 operands to slot[0, +480]"));
  EXPECT_THAT(known_swaps_with_the_phase(operator_of<AllReduce>, Referring::all_but_rank_0), IsEmpty());
  EXPECT_THAT(known_swaps_with_the_phase(operator_of<Scan>, Referring::rank_0), IsEmpty());
  EXPECT_THAT(known_swaps_with_the_phase(operator_of<Scan>, Referring::all_but_rank_0),
              ElementsAre("rank 1: reduce 2 operands to slot[0, +480]"));
  EXPECT_THAT(known_swaps_with_the_phase(operator_of<AllGather>, Referring::rank_0),
              ElementsAre("rank 0: copy rank 2's slot[0, +480] to recv[960, +480]",
                          "rank 2: copy rank 1's slot[0, +480] to recv[480, +480]"));
  EXPECT_THAT(known_swaps_with_the_phase(operator_of<AllGather>, Referring::all_but_rank_0),
              ElementsAre("rank 1: copy rank 0's slot[0, +480] to recv[0, +480]"));
}

TEST(Mutants, have_every_kind_of_change) {
  std::set<ChangeKind> kinds;
  for (const check::Mutant& mutant : check::mutants_of(case_of(library<AllGather>("mesh"), 3)))
    kinds.insert(mutant.kind);
  EXPECT_EQ(kinds.size(), check::kChangeKinds);
}

TEST(Mutants, are_made_of_schedules_that_pass) {
  const Algorithm<Barrier> algorithm = as_algorithm<Barrier>(
      +[](Exec& x, Barrier) -> Task<> { co_await x.link(x.ahead(1)).wait(Signal::Ack); }, all_links);
  const AnyAlgorithm any(algorithm);
  EXPECT_THROW((void)check::mutants_of(case_of(any, 2)), Error);
}

}  // namespace
}  // namespace cohort::test::mutants_test
