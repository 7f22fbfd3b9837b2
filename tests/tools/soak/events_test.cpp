// SPDX-License-Identifier: Apache-2.0
// Each kind of event that is drawn beside plain faults: that it is drawn, told, harmless where the library
// does well, and that a planted bug of the kind is found.
#include <cohort/tools/soak/events.h>

#include <cohort/engine/error.h>
#include <cohort/tests/tools/soak/plain_job.h>
#include <cohort/tools/sim/topology_file.h>
#include <cohort/tools/soak/description.h>
#include <cohort/tools/soak/soak.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <string>

namespace cohort::soak::events_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Three ranks of a host whose all_reduces work on mapped memory; rank 1 dies amid them.
Job job_with_death_amid_mapped_memory(std::uint64_t step) {
  Job job = plain_job(1);
  job.ranks = 3;
  job.world.host_of = {0, 0, 0};
  CommunicatorPlan& plan = job.communicators[0];
  plan.is_isolated = true;
  CallPlan& call = plan.calls[0];
  call.op = operator_of<AllReduce>;
  call.count = 20'000;
  call.is_allocated = true;
  call.algorithm = "direct";
  plan.calls.resize(6, call);
  job.lingers = milliseconds(5);
  job.world.dead = {{.process = 1, .step = step, .since_mark = true}};
  return job;
}

/// Rank 1, on the second host, forks amid the calls, and dies later.
Job job_with_fork(std::uint64_t step) {
  Job job = plain_job(1);
  job.ranks = 3;
  job.world.host_of = {0, 1, 0};
  job.communicators[0].calls.resize(20, job.communicators[0].calls[0]);
  job.communicators[0].is_isolated = true;
  job.world.forking = {{.process = 1, .step = step, .since_mark = true}};
  job.world.dead = {{.process = 1, .step = step + 4, .since_mark = true}};
  return job;
}

Job job_with_late_rank(Duration by, bool is_busy) {
  Job job = plain_job(1);
  job.late = {{.rank = 1, .communicator = 0, .call = 1, .by = by, .is_busy = is_busy}};
  return job;
}

Job job_with_rival(Rival::Kind kind) {
  Job job = plain_job(1);
  job.ranks = 3;
  job.rival = Rival{.kind = kind, .ranks = kind == Rival::Kind::other_size ? 4U : 3U};
  job.world.host_of.assign(job.processes(), 0);
  for (world::Process process = 0; process < job.processes(); ++process)
    job.begins_after.emplace_back(milliseconds(process * 7 % 5));
  return job;
}

constexpr std::array kRivals = {Rival::Kind::other_name, Rival::Kind::other_start, Rival::Kind::other_secret,
                                Rival::Kind::other_size, Rival::Kind::twin};

TEST(SoakEvents, of_each_kind_are_drawn_and_told) {
  struct Kind {
    std::string words;
    std::function<bool(const Job&)> is_in;
    int drawn = 0;
  };
  const auto is_amid_calls = [](const Job& job) {
    return job.lingers != Duration::zero() && !job.world.dead.empty();
  };
  std::vector<Kind> kinds = {
      {"dies at step", is_amid_calls},
      {" forks at step", [](const Job& job) { return !job.world.forking.empty(); }},
      {" computes for ", [](const Job& job) { return !job.late.empty() && job.late.back().is_busy; }},
      {" waits for ", [](const Job& job) { return !job.late.empty() && !job.late.back().is_busy; }},
      {" computes for ", [](const Job& job) { return job.is_late_beyond_patience() && job.late[0].is_busy; }},
      {"a second job of ", [](const Job& job) { return job.rival.has_value(); }},
      {" is lost from ",
       [](const Job& job) { return !job.world.lost.empty() && job.world.lost[0].since > Duration(); }},
  };
  for (const Rival::Kind rival : kRivals)
    kinds.push_back(
        {"at that address", [rival](const Job& job) { return job.rival && job.rival->kind == rival; }});
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const Job job = draw_job(seed);
    for (Kind& kind : kinds) {
      if (!kind.is_in(job)) continue;
      ++kind.drawn;
      const bool is_silent = !job.world.dead.empty() && job.world.dead[0].is_silent;
      EXPECT_TRUE(is_silent || describe(job).find(kind.words) != std::string::npos) << describe(job);
    }
  }
  for (const Kind& kind : kinds) EXPECT_GT(kind.drawn, 5) << "of '" << kind.words << "'";
}

TEST(SoakEvents, a_death_amid_peers_that_touch_each_others_memory_is_heard_of_at_once) {
  bool has_failed = false;
  for (std::uint64_t step = 1; step < 200; step += 7) {
    const JobReport report = run_job(job_with_death_amid_mapped_memory(step));
    EXPECT_THAT(report.complaints, IsEmpty()) << "at step " << step;
    has_failed = has_failed || report.has_failed;
  }
  EXPECT_TRUE(has_failed);
}

TEST(SoakEvents, a_peer_that_touches_memory_after_its_owner_was_told_of_a_death_is_found) {
  std::vector<std::string> complaints;
  for (std::uint64_t step = 1; step < 60; step += 7) {
    Job job = job_with_death_amid_mapped_memory(step);
    job.planted.touches_peers_late = true;
    const JobReport report = run_job(job);
    complaints.insert(complaints.end(), report.complaints.begin(), report.complaints.end());
  }
  EXPECT_THAT(complaints, Contains(HasSubstr("changed after the call was over")));
}

TEST(SoakEvents, a_death_of_which_nobody_hears_is_found) {
  Job job = job_with_death_amid_mapped_memory(8);
  job.planted.hears_no_death = true;
  EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr("that no fault explains")));
}

TEST(SoakEvents, a_fork_hides_no_death_and_one_that_keeps_sockets_is_found) {
  bool has_failed = false;
  std::vector<std::string> complaints;
  for (std::uint64_t step = 1; step < 60; step += 3) {
    Job job = job_with_fork(step);
    const JobReport report = run_job(job);
    EXPECT_THAT(report.complaints, IsEmpty()) << "forked at step " << step;
    has_failed = has_failed || report.has_failed;
    job.world.children_keep_all = true;
    const JobReport wrong = run_job(job);
    complaints.insert(complaints.end(), wrong.complaints.begin(), wrong.complaints.end());
  }
  EXPECT_TRUE(has_failed);
  EXPECT_THAT(complaints, Contains(HasSubstr("that no fault explains")));
}

TEST(SoakEvents, a_rank_that_is_late_fails_nothing_that_has_patience) {
  for (const bool is_busy : {true, false}) {
    Job job = job_with_late_rank(seconds(60), is_busy);
    EXPECT_TRUE(job.is_late_beyond_patience());
    allow_for_lateness(job);
    EXPECT_FALSE(job.may_fail());
    const JobReport report = run_job(job);
    EXPECT_THAT(report.complaints, IsEmpty());
    job.planted.deadline_factor = 0.5;
    EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr("failed without any fault")));
  }
}

TEST(SoakEvents, a_rank_that_is_later_than_all_patience_is_named_by_all) {
  for (const bool is_busy : {true, false}) {
    Job job = job_with_late_rank(seconds(60), is_busy);
    const JobReport report = run_job(job);
    EXPECT_THAT(report.complaints, IsEmpty());
    EXPECT_TRUE(report.has_failed);
    job.planted.deadline_factor = 100;
    EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr("of 10.000 s that it has")));
  }
}

TEST(SoakEvents, jobs_that_meet_at_one_address_run_or_are_told) {
  for (const Rival::Kind kind : kRivals)
    EXPECT_THAT(run_job(job_with_rival(kind)).complaints, IsEmpty()) << static_cast<int>(kind);
}

TEST(SoakEvents, jobs_that_mix_although_something_tells_them_apart_are_found) {
  Job job = job_with_rival(Rival::Kind::other_name);
  // The second job's rank 2 comes in time for the first one, whose own does not.
  job.begins_after.clear();
  for (const int after_ms : {0, 5, 200, 100, 100, 5}) job.begins_after.emplace_back(milliseconds(after_ms));
  EXPECT_THAT(run_job(job).complaints, IsEmpty());
  job.planted.mixes_rivals = true;
  EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr(", not ")));
}

TEST(SoakEvents, a_link_goes_down_at_its_moment) {
  Job job = plain_job(1);
  job.communicators[0].calls.resize(20, job.communicators[0].calls[0]);
  job.world.lost = {{.from = 1, .to = 0, .step = 1, .since = seconds(100)}};
  const JobReport before = run_job(job);
  EXPECT_THAT(before.complaints, IsEmpty());
  EXPECT_FALSE(before.has_failed);
  job.late = {{.rank = 1, .communicator = 0, .call = 10, .by = seconds(5)}};
  job.world.lost[0].since = seconds(3);
  const JobReport amid = run_job(job);
  EXPECT_THAT(amid.complaints, IsEmpty());
  EXPECT_TRUE(amid.has_failed);
  job.planted.deadline_factor = 2;
  EXPECT_THAT(run_job(job).complaints, Contains(HasSubstr("of 10.000 s that it has")));
}

TEST(SoakTopology, gives_its_faults_to_every_job) {
  const sim::Topology topology = sim::parse_topology(
      R"({"ranks_of_hosts": [3], "ranks_per_host": 2, "network": {"latency_ns": 7000},
          "faults": {"slow_ranks": [{"rank": 1, "factor": 3}],
                     "late_ranks": [{"rank": 2, "by_ns": 2e9}],
                     "degraded_links": [{"from": 2, "to": 3, "latency_factor": 2}],
                     "lost_links": [{"from": 3, "to": 0, "at_ns": 5e6}],
                     "dead_ranks": [{"rank": 4, "step": 9}],
                     "cancelled_operations": [{"rank": 5, "step": 1}]}})",
      "t.json");
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    const Job job = draw_job(seed, topology);
    EXPECT_GE(job.ranks, 6U);
    EXPECT_EQ(job.world.host_of[2], 0U);
    EXPECT_EQ(job.world.host_of[3], 1U);
    EXPECT_EQ(job.world.outside_latency, std::chrono::microseconds(7));
    EXPECT_EQ(job.world.lost[0].since, milliseconds(5));
    EXPECT_EQ(job.late[0].by, seconds(2));
    EXPECT_EQ(job.faults(), 3U);
    for (const char* const words :
         {"rank 1 is 3", "rank 2 computes for 2 s", "link 2-3", "what 3 sends to 0 is lost",
          "rank 4 dies at step 9 after it has joined", "rank 5 cancels call 1"})
      EXPECT_THAT(describe(job), HasSubstr(words));
  }
}

TEST(SoakTopology, finds_a_fault_of_the_file_that_is_waited_out_for_too_long) {
  std::FILE* const out = std::tmpfile();
  bool is_found = false;
  for (const int step : {20, 40, 60, 80, 100}) {  // amid joining, or amid calls
    const std::string text =
        fmt::format(R"({{"faults": {{"lost_links": [{{"from": 1, "to": 0, "step": {}}}]}}}})", step);
    SoakOptions options;
    options.topology = sim::parse_topology(text, "t.json");
    options.jobs = 30;
    EXPECT_TRUE(run_jobs(options, out, out)) << "step " << step;
    options.planted.deadline_factor = 3;
    is_found = is_found || !run_jobs(options, out, out);
  }
  EXPECT_TRUE(is_found);
  std::fclose(out);
}

TEST(SoakTopology, samples_can_be_soaked_and_too_many_ranks_are_refused) {
  const std::string folder = COHORT_TEST_SOURCE_DIR "/samples/topologies/";
  SoakOptions options;
  options.topology = sim::read_topology(folder + "faults.json");
  options.jobs = 8;
  std::FILE* const out = std::tmpfile();
  EXPECT_TRUE(run_jobs(options, out, out));
  std::fclose(out);
  const sim::Topology large =
      sim::parse_topology(R"({"faults": {"slow_ranks": [{"rank": 99, "factor": 2}]}})", "t.json");
  EXPECT_THROW((void)draw_job(1, large), Error);
}

TEST(CallPlan, has_counts_among_the_ranks_only_that_it_was_drawn_for) {
  CallPlan plan;
  plan.op = operator_of<AllGatherV>;
  plan.count = 4;
  plan.counts = {1, 4, 2};
  EXPECT_EQ(plan.form(3).of(2), 2U);
  EXPECT_EQ(plan.form(4).of(3), 4U);
}

}  // namespace
}  // namespace cohort::soak::events_test
