// SPDX-License-Identifier: Apache-2.0
// Groups and messages beside the calls of jobs: that they are drawn, do well, and that what goes wrong in
// them is found.
#include <cohort/tools/soak/beside.h>

#include <cohort/tests/tools/soak/plain_job.h>
#include <cohort/tools/soak/description.h>
#include <cohort/tools/soak/expectation.h>
#include <cohort/tools/soak/soak.h>

#include <gmock/gmock.h>

#include <vector>

namespace cohort::soak::beside_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Three ranks on three hosts; ranks 0 and 1 have a group, rank 2 one of its own.
Job job_with_groups(bool is_split) {
  Job job = plain_job(1);
  job.ranks = 3;
  job.world.host_of = {0, 1, 2};
  CommunicatorPlan& plan = job.communicators[0];
  plan.group = GroupPlan{.is_split = is_split, .colors = {4, 4, 2}, .keys = {1, 0, 0}, .calls = plan.calls};
  return job;
}

/// Rank 1 sends to rank 0 in packets and in pieces; ranks 1 and 2 to whoever is first at rank 0.
Job job_with_messages() {
  Job job = plain_job(1);
  job.ranks = 3;
  job.world.host_of = {0, 1, 2};
  job.communicators[0].messages = {{.from = 1, .to = 0, .tag = 1, .bytes = 70'000},
                                   {.from = 1, .to = 0, .tag = 1, .bytes = 100},
                                   {.from = 2, .to = 0, .tag = 7, .bytes = 9000, .is_for_anybody = true},
                                   {.from = 1, .to = 0, .tag = 7, .bytes = 9000, .is_for_anybody = true}};
  return job;
}

TEST(SoakBeside, groups_and_messages_are_drawn_for_a_third_of_the_jobs_and_told) {
  int splits = 0;
  int groups = 0;
  int messages = 0;
  int jobs = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const Job job = draw_job(seed);
    const std::string text = describe(job);
    bool has_any = false;
    for (const CommunicatorPlan& plan : job.communicators) {
      splits += plan.group && plan.group->is_split ? 1 : 0;
      groups += plan.group && !plan.group->is_split ? 1 : 0;
      messages += plan.messages.empty() ? 0 : 1;
      has_any = has_any || plan.group || !plan.messages.empty();
      if (plan.group) {
        EXPECT_THAT(text, HasSubstr(plan.group->is_split ? "groups by split" : "groups by group"));
      }
      if (!plan.messages.empty()) {
        EXPECT_THAT(text, HasSubstr("messages: "));
      }
    }
    jobs += has_any ? 1 : 0;
  }
  EXPECT_GT(splits, 50);
  EXPECT_GT(groups, 50);
  EXPECT_GT(messages, 100);
  EXPECT_GT(jobs, 200);
  EXPECT_LT(jobs, 400);
}

TEST(SoakBeside, members_of_a_group_are_those_of_a_colour_by_key_and_then_by_rank) {
  const GroupPlan plan{.colors = {1, -1, 1, 0, 1}, .keys = {2, 0, 1, 0, 1}, .calls = {}};
  EXPECT_THAT(plan.members(1), ElementsAre(2, 4, 0));
  EXPECT_THAT(plan.members(0), ElementsAre(3));
  EXPECT_THAT(plan.members(-1), IsEmpty());
}

TEST(SoakBeside, groups_and_messages_do_well_and_repeat) {
  for (const Job& job : {job_with_groups(true), job_with_groups(false), job_with_messages()}) {
    const JobReport once = run_job(job);
    EXPECT_THAT(once.complaints, IsEmpty()) << describe(job);
    EXPECT_FALSE(once.has_failed);
    EXPECT_EQ(run_job(job).hash, once.hash);
  }
}

TEST(SoakBeside, a_message_that_loses_a_byte_on_its_way_is_found) {
  int found = 0;
  for (std::uint64_t step = 10; step < 400; step += 5) {
    Job job = job_with_messages();
    job.communicators[0].calls.resize(1);
    job.world.dropped = {{.from = 1, .to = 0, .step = step}};
    for (const std::string& complaint : run_job(job).complaints)
      found += complaint.find("message ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

TEST(SoakBeside, a_death_fails_the_groups_of_that_rank_alone) {
  for (std::uint64_t step = 1; step < 120; step += 9) {
    Job job = job_with_groups(false);
    job.communicators[0].calls.resize(12, job.communicators[0].calls[0]);
    job.world.dead = {{.process = 2, .step = step, .since_mark = true}};
    EXPECT_THAT(run_job(job).complaints, IsEmpty()) << "of rank 2 at step " << step;
    job.world.dead[0].process = 1;
    EXPECT_THAT(run_job(job).complaints, IsEmpty()) << "of rank 1 at step " << step;
  }
}

TEST(SoakBeside, each_expectation_is_of_one_fault) {
  Job job = job_with_groups(false);
  job.world.dead = {{.process = 2, .step = 5}};
  job.world.broken = {{.from = 0, .to = 1, .step = 3}};
  const std::vector<Expectation> expected = expectations_of(job, 0);
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_THAT(expected[0].kinds, ElementsAre(ErrorKind::PeerDied));
  EXPECT_THAT(expected[0].culprits, ElementsAre(2U));
  EXPECT_THAT(expected[1].culprits, ElementsAre(0U, 1U));
  const std::vector<Rank> pair = {1, 0};
  EXPECT_FALSE(expected[0].is_felt_among(pair));
  EXPECT_TRUE(expected[1].is_felt_among(pair));
  EXPECT_FALSE(
      expected[1].explains_culprit(Error(ErrorKind::LinkFault, "?").with_culprit(2), ErrorOf::joining));
  EXPECT_TRUE(expected[1].explains_culprit(Error(ErrorKind::LinkFault, "?"), ErrorOf::joining));
  EXPECT_FALSE(expected[1].explains_culprit(Error(ErrorKind::LinkFault, "?"), ErrorOf::communicator));
  job.world.dead.clear();
  job.world.broken.clear();
  job.deed = Deed{.kind = Deed::Kind::aborts, .rank = 1};
  const std::vector<Expectation> of_deed = expectations_of(job, 0);
  ASSERT_EQ(of_deed.size(), 1U);
  EXPECT_FALSE(of_deed[0].is_felt_among(pair)) << "a communicator that is given up leaves its groups alone";
}

}  // namespace
}  // namespace cohort::soak::beside_test
