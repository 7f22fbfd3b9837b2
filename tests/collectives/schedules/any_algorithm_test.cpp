// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/any_algorithm.h>

#include <cohort/collectives/machines/check/check.h>
#include <cohort/collectives/machines/sim/simulate.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/engine/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::any_algorithm_test {
namespace {

using testing::HasSubstr;

Task<> do_nothing(Exec&, Barrier) { co_return; }
void combine_nothing(Exec&, const Barrier&) {}

constexpr LocalSchedule<Barrier> kInSlots = {.announces = Announces::data, .combine = combine_nothing};
constexpr LocalSchedule<Barrier> kOnWindows = {.announces = Announces::windows, .combine = combine_nothing};

std::string objection_to(const Algorithm<Barrier>& algorithm) {
  return std::string(AnyAlgorithm(algorithm).objection());
}

TEST(AnyAlgorithm, has_no_objection_to_what_can_run_where_it_says) {
  EXPECT_EQ(objection_to({.name = "links", .schedule = do_nothing}), "");
  EXPECT_EQ(objection_to({.name = "mapped", .scope = Scope::node, .schedule = do_nothing}), "");
  EXPECT_EQ(objection_to({.name = "slots", .scope = Scope::node, .local = kInSlots}), "");
  EXPECT_EQ(objection_to({.name = "alone", .scope = Scope::self, .local = kOnWindows}), "");
  EXPECT_EQ(objection_to({.name = "both", .scope = Scope::node, .schedule = do_nothing, .local = kOnWindows}),
            "");
}

/// Each of these would be called through a null pointer somewhere.
TEST(AnyAlgorithm, that_cannot_run_somewhere_is_refused_wherever_it_comes) {
  const std::pair<Algorithm<Barrier>, std::string> cases[] = {
      {{.name = "", .schedule = do_nothing}, "needs a name"},
      {{.name = "nothing"}, "needs a schedule"},
      {{.name = "mapped", .scope = Scope::node}, "needs a schedule"},
      {{.name = "windows", .scope = Scope::node, .local = kOnWindows}, "needs a schedule"},
      {{.name = "slots on links", .local = kInSlots}, "is for Scope::node"},
      {{.name = "windows on links", .schedule = do_nothing, .local = kOnWindows}, "is for Scope::node"},
  };
  const sim::Topology topology;
  for (const auto& [algorithm, why] : cases) {
    EXPECT_THAT(objection_to(algorithm), HasSubstr(why)) << algorithm.name;
    AlgorithmTable table;
    EXPECT_THROW(table.add(algorithm), Error) << algorithm.name;
    EXPECT_THROW((void)check::check(algorithm, check::CheckOptions()), Error) << algorithm.name;
    EXPECT_THROW((void)sim::simulate(algorithm, topology, {.ranks = 2}), Error) << algorithm.name;
  }
}

}  // namespace
}  // namespace cohort::any_algorithm_test
