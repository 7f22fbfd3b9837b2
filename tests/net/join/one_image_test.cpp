// SPDX-License-Identifier: Apache-2.0
// Machines that were cloned or restored from one image: their ranks take each other for ranks of one host.
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/world_run.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace cohort::one_image_test {
namespace {

using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

/// What rank 0 of two hosts is told, and then `look` with what it knows.
Joined join_on_clones(const std::function<void(JoinOptions&)>& adjust,
                      const std::function<void(const Membership&)>& look = nullptr, Rank per_host = 1) {
  const Rank ranks = 2 * per_host;
  world::Settings settings;
  for (Rank rank = 0; rank < ranks; ++rank) settings.host_of.push_back(rank / per_host);
  settings.has_one_image = true;
  std::vector<JoinOptions> world = ::cohort::test::world_of(ranks, "10.0.0.1:7000");
  ::cohort::test::give_secret(world);
  std::vector<Joined> joined(ranks);
  std::vector<std::function<void(Engine&)>> bodies;
  for (Rank rank = 0; rank < ranks; ++rank) {
    adjust(world[rank]);
    bodies.emplace_back([&, rank](Engine& engine) {
      Joined outcome;
      engine.run(::cohort::test::join_into(engine, world[rank], outcome));
      joined[rank].error = outcome.error;
      if (look && outcome.membership) look(*outcome.membership);
    });
  }
  ::cohort::test::run_world(settings, bodies);
  return std::move(joined[0]);
}

TEST(OneImage, of_two_hosts_is_told_at_the_deadline_with_what_to_do) {
  const Joined joined = join_on_clones([](JoinOptions&) {});
  ASSERT_EQ(kind_of(joined.error), "LinkFault");
  EXPECT_THAT(joined.error->what(), HasSubstr("a firewall is between them"));
  EXPECT_THAT(joined.error->what(), HasSubstr("if ranks 0-1, which take each other for ranks of one host"));
  EXPECT_THAT(joined.error->what(), HasSubstr("COHORT_MACHINE_ID"));
}

TEST(OneImage, of_several_ranks_each_is_told_with_all_of_them) {
  const Joined joined = join_on_clones([](JoinOptions&) {}, nullptr, 2);
  ASSERT_EQ(kind_of(joined.error), "LinkFault");
  EXPECT_THAT(
      joined.error->what(),
      HasSubstr("if ranks 0-3, which take each other for ranks of one host, are on several machines"));
}

/// Those of one host share memory, so they have to be of one machine.
TEST(OneImage, ids_of_hosts_and_of_machines_are_not_taken_for_each_other) {
  std::size_t looks = 0;
  const auto adjust = [](JoinOptions& options) {
    options.host_id = options.rank == 0 ? "a|b" : "a";
    options.machine_id = options.rank == 0 ? "" : "b|";
  };
  const Joined joined = join_on_clones(adjust, [&](const Membership& membership) {
    EXPECT_FALSE(membership.shares_host(1 - membership.rank));
    ++looks;
  });
  EXPECT_EQ(kind_of(joined.error), "no error");
  EXPECT_EQ(looks, 2);
}

TEST(OneImage, joins_with_ids_of_hosts_or_of_machines) {
  for (std::string JoinOptions::*id : {&JoinOptions::host_id, &JoinOptions::machine_id}) {
    const Joined joined =
        join_on_clones([&](JoinOptions& options) { options.*id = std::to_string(options.rank); });
    EXPECT_EQ(kind_of(joined.error), "no error");
  }
}

TEST(OneImage, has_its_cores_once_unless_machines_are_told_apart) {
  for (const bool are_told_apart : {false, true}) {
    std::size_t looks = 0;
    const auto adjust = [&](JoinOptions& options) {
      (are_told_apart ? options.machine_id : options.host_id) = std::to_string(options.rank);
    };
    const Joined joined = join_on_clones(adjust, [&](const Membership& membership) {
      EXPECT_EQ(membership.shares_machine(1 - membership.rank), !are_told_apart);
      EXPECT_FALSE(membership.shares_host(1 - membership.rank));
      EXPECT_EQ(membership.engines_per_core(), are_told_apart ? 1 : 2);
      ++looks;
    });
    EXPECT_EQ(kind_of(joined.error), "no error");
    EXPECT_EQ(looks, 2);
  }
}

}  // namespace
}  // namespace cohort::one_image_test
