// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/processes/process_job.h>

#include <gmock/gmock.h>

#include <set>

namespace cohort::soak::process_job_test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(ProcessJob, is_the_same_for_every_start_of_a_seed) {
  for (std::uint64_t seed = 1; seed < 50; ++seed)
    EXPECT_EQ(describe(draw_process_job(seed, {})), describe(draw_process_job(seed, {})));
}

TEST(ProcessJob, of_many_has_every_form) {
  std::set<std::string> transports;
  std::set<unsigned> percent;
  std::set<Rank> ranks;
  std::set<bool> copies;
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    const ProcessJob job = draw_process_job(seed, {});
    transports.insert(job.transport);
    percent.insert(job.percent_allocated);
    ranks.insert(job.ranks);
    copies.insert(job.copies_by_kernel);
  }
  EXPECT_THAT(transports, UnorderedElementsAre("shm", "tcp", "hosts"));
  EXPECT_THAT(percent, UnorderedElementsAre(0, 50, 100));
  EXPECT_THAT(ranks, UnorderedElementsAre(2, 3, 4, 5));
  EXPECT_EQ(copies.size(), 2U);
}

TEST(ProcessJob, has_one_of_the_transports_that_are_asked_for) {
  ProcessJobOptions options;
  options.transports = {"verbs", "tcp"};
  std::set<std::string> drawn;
  for (std::uint64_t seed = 1; seed < 50; ++seed) drawn.insert(draw_process_job(seed, options).transport);
  EXPECT_THAT(drawn, Each(AnyOf("verbs", "tcp")));
}

TEST(ProcessJob, may_write_late_only_where_ranks_are_stopped_for_longer_than_peers_wait) {
  ProcessJobOptions options;
  EXPECT_FALSE(draw_process_job(1, options).may_write_late());
  options.longest_stop = std::chrono::seconds(10);
  EXPECT_TRUE(draw_process_job(1, options).may_write_late());
  EXPECT_THAT(describe(draw_process_job(1, options)), HasSubstr("up to 10 s"));
}

}  // namespace
}  // namespace cohort::soak::process_job_test
