// SPDX-License-Identifier: Apache-2.0
// Whether soaking finds what it is there to find: bugs are planted, and seeds that found some are run again.
#include <cohort/engine/system/environment.h>
#include <cohort/tests/tools/soak/plain_job.h>
#include <cohort/tools/soak/description.h>
#include <cohort/tools/soak/expectation.h>
#include <cohort/tools/soak/soak.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace cohort::soak::soak_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A plain one, and what rank 1 sends during the calls is lost.
/// Of a message amid the calls, which come after many of joining: one for which a call waits until its
/// deadline.
Job job_with_lost_link() {
  for (std::uint64_t step = 20; step < 2000; step += 5) {
    Job job = plain_job(1);
    job.communicators[0].calls.resize(20, job.communicators[0].calls[0]);
    job.world.lost = {{.from = 1, .to = 0, .step = step}};
    job.planted.deadline_factor = 2;
    const JobReport report = run_job(job);
    job.planted.deadline_factor = 1;
    if (::testing::Value(report.complaints, Contains(HasSubstr("took 20.")))) return job;
  }
  ADD_FAILURE() << "no message is one of a call";
  return plain_job(1);
}

TEST(Soak, a_plain_job_does_well_and_repeats_to_the_last_event) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const JobReport once = run_job(plain_job(seed));
    const JobReport again = run_job(plain_job(seed));
    EXPECT_THAT(once.complaints, IsEmpty()) << "seed " << seed;
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
  }
}

TEST(Soak, finds_a_transport_that_drops_a_byte_of_the_data) {
  for (std::uint64_t step = 10; step < 25; ++step) {  // before, a handshake is tried again
    Job job = plain_job(1);
    job.communicators[0].calls.resize(20, job.communicators[0].calls[0]);
    job.world.dropped = {{.from = 1, .to = 0, .step = step}};
    EXPECT_THAT(run_job(job).complaints, Not(IsEmpty())) << "of message " << step;
  }
}

TEST(Soak, finds_a_communicator_that_waits_beyond_its_deadline) {
  Job job = job_with_lost_link();
  EXPECT_THAT(run_job(job).complaints, IsEmpty());
  job.planted.deadline_factor = 2;
  EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr("took 20.")));
}

TEST(Soak, finds_who_waits_for_ever_and_says_for_what) {
  Job job = job_with_lost_link();
  job.planted.deadline_factor = 1e6;
  const JobReport report = run_job(job);
  EXPECT_FALSE(report.is_process_lost);
  EXPECT_THAT(report.complaints, Contains(HasSubstr("no end after")));
  EXPECT_THAT(report.complaints, Contains(HasSubstr("rank 0 waits for")));
}

TEST(Soak, finds_a_buffer_that_is_touched_after_its_call) {
  Job job = plain_job(1);
  job.planted.touches_old_buffers = true;
  EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr("changed after the call was over")));
}

TEST(Soak, finds_a_failure_that_no_fault_explains) {
  Job job = plain_job(1);
  job.communicators[0].timeout = std::chrono::nanoseconds(1);
  EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr("failed without any fault")));
}

/// A plain one with a group of both ranks, who hear too late of each other to make it.
Job job_without_time_for_its_group() {
  Job job = plain_job(1);
  job.world.degraded = {{.from = 0, .to = 1, .latency_factor = 20'000}};  // above 0.5 s
  job.communicators[0].join_timeout = std::chrono::seconds(60);
  job.communicators[0].timeout = std::chrono::nanoseconds(1);
  job.communicators[0].group = GroupPlan{.is_split = false, .colors = {0, 0}, .keys = {0, 0}, .calls = {}};
  return job;
}

TEST(Soak, finds_groups_that_are_never_made) {
  const Job job = job_without_time_for_its_group();
  EXPECT_THAT(run_job(job).complaints,
              Contains(AllOf(HasSubstr("making the group"), HasSubstr("failed without any fault"))));
}

TEST(Soak, lets_no_two_ranks_excuse_each_other_that_make_a_group) {
  Job job = job_without_time_for_its_group();
  job.deed = Deed{.kind = Deed::Kind::leaves, .rank = 0, .communicator = 0, .call = 1};
  EXPECT_THAT(run_job(job).complaints,
              Contains(AllOf(HasSubstr("making the group"), HasSubstr("that no fault explains"))));
}

TEST(Soak, expects_a_culprit_where_somebody_can_know_it) {
  const Error of_nobody(ErrorKind::DeadlineExceeded, "late");
  Job job = plain_job(1);
  job.world.dead = {{.process = 1, .step = 20}};
  job.world.broken = {{.from = 1, .to = 0, .step = 20}};
  job.deed = Deed{.kind = Deed::Kind::cancels, .rank = 0, .communicator = 0, .call = 1};
  for (const Expectation& one : expectations_of(job, 0)) {
    EXPECT_FALSE(one.explains_culprit(of_nobody, ErrorOf::communicator));
    EXPECT_TRUE(one.explains_culprit(of_nobody.with_culprit(*one.culprits.begin()), ErrorOf::communicator));
  }
  for (const Expectation& one : expectations_of(job_with_lost_link(), 0))
    EXPECT_TRUE(one.explains_culprit(of_nobody, ErrorOf::communicator));
}

TEST(Soak, expects_a_silent_rank_to_be_named_but_by_who_waits_for_its_message_to_anybody) {
  const Error of_nobody(ErrorKind::DeadlineExceeded, "late");
  Job job = plain_job(1);
  job.communicators.push_back(job.communicators[0]);
  job.world.dead = {{.process = 1, .step = 20, .is_silent = true}};
  std::vector<MessagePlan>& messages = job.communicators[0].messages;
  const auto explains = [&](std::size_t communicator, ErrorOf of) {
    return expectations_of(job, communicator).at(0).explains_culprit(of_nobody, of);
  };
  messages = {{.from = 0, .to = 1, .is_for_anybody = true}, {.from = 1, .to = 0}};
  EXPECT_FALSE(explains(0, ErrorOf::communicator));
  messages.push_back({.from = 1, .to = 0, .is_for_anybody = true});
  EXPECT_TRUE(explains(0, ErrorOf::communicator));
  EXPECT_FALSE(explains(0, ErrorOf::group)) << "it lives on";
  EXPECT_FALSE(explains(1, ErrorOf::communicator)) << "nobody sends anything there";
  EXPECT_FALSE(expectations_of(job, 0).at(0).explains_culprit(Error(ErrorKind::PeerDied, "gone"),
                                                              ErrorOf::communicator));
}

TEST(Soak, finds_survivors_that_blame_a_rank_which_did_nothing) {
  Job job = plain_job(1);
  job.ranks = 3;
  job.world.host_of = {0, 1, 2};
  job.world.dead = {{.process = 2, .step = 200}};
  job.deed = Deed{.kind = Deed::Kind::leaves, .rank = 0, .communicator = 0, .call = 1};
  EXPECT_THAT(run_job(job).complaints, IsEmpty());
  job.deed->call = 0;
  job.world.dead.clear();
  job.communicators[0].calls[0].op = operator_of<Barrier>;
  EXPECT_THAT(run_job(job).complaints, IsEmpty());
}

TEST(Soak, prints_what_fails_with_the_command_that_repeats_it) {
  SoakOptions options;
  options.jobs = 100;
  options.planted.touches_old_buffers = true;
  std::FILE* const out = std::tmpfile();
  EXPECT_FALSE(run_jobs(options, out, out));
  EXPECT_EQ(std::fseek(out, 0, SEEK_SET), 0);
  std::string text(std::size_t{1} << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_THAT(text, HasSubstr("FAILED seed "));
  EXPECT_THAT(text, ::testing::ContainsRegex("again: cohort soak --seed [0-9]+ --jobs 1 --trace\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("passed, 10 failed\n$"));
}

TEST(Soak, seeds_that_found_something_do_well_now) {
  std::ifstream file(std::string(COHORT_TEST_SOURCE_DIR) + "/tests/seeds/soak.txt");
  int seeds = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::uint64_t seed =
        environment::parse_number("seed", line.substr(0, line.find(' ')), 0, ~std::uint64_t{0});
    const Job job = draw_job(seed);
    EXPECT_THAT(run_job(job).complaints, IsEmpty()) << "seed " << line << ": " << describe(job);
    ++seeds;
  }
  EXPECT_GT(seeds, 0);
}

}  // namespace
}  // namespace cohort::soak::soak_test
