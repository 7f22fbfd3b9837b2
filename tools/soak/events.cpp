// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/events.h>

#include <algorithm>

namespace cohort::soak {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using world::Random;

/// Beyond the time that somebody is late: what the call itself may take.
constexpr Duration kTimeOfCall = seconds(10);

Rank draw_rank(Random& random, const Job& job) { return static_cast<Rank>(random.below(job.ranks)); }

/// Its steps begin once it has joined, so that few of them are in the middle of calls.
std::uint64_t draw_step_of_calls(Random& random) {
  constexpr std::uint64_t kMost[] = {5, 20, 80, 300};
  return random.between(1, random.pick(kMost));
}

/// All ranks on one host, their buffers in memory that all of them map.
void draw_death_amid_mapped_memory(Random& random, Job& job) {
  std::ranges::fill(job.world.host_of, 0U);
  job.world.degraded.clear();
  job.world.dead.push_back({.process = draw_rank(random, job),
                            .step = draw_step_of_calls(random),
                            .since_mark = true,
                            .is_silent = random.chance(15)});
  job.lingers = microseconds(random.between(0, 20'000));
  for (CommunicatorPlan& plan : job.communicators) {
    plan.is_isolated = true;  // else memory is that of one process, which outlives a thread
    for (CallPlan& call : plan.calls) {
      constexpr std::size_t kCounts[] = {1000, 1025, 4097, 9000, 12'000};
      call.is_allocated = random.chance(85);
      call.count = std::max(call.count, random.pick(kCounts) / job.ranks);
      if (random.chance(60)) call.algorithm = "direct";
    }
  }
}

/// Children hold what nobody guards, when a rank dies or leaves as well as when all goes on.
void draw_forks(Random& random, Job& job) {
  const Rank rank = draw_rank(random, job);
  const std::size_t forks = random.between(1, 3);
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < forks; ++i) {
    const bool since_mark = random.chance(50);
    const std::uint64_t step = draw_step_of_calls(random);
    job.world.forking.push_back({rank, step, since_mark});
    last = std::max(last, step);
  }
  if (random.chance(60)) {
    job.world.dead.push_back(
        {.process = rank, .step = last + draw_step_of_calls(random), .since_mark = true});
    for (CommunicatorPlan& plan : job.communicators) plan.is_isolated = true;
  }
}

void draw_late_ranks(Random& random, Job& job) {
  const std::size_t many = random.between(1, 2);
  for (std::size_t i = 0; i < many; ++i) {
    Lateness late;
    late.rank = draw_rank(random, job);
    late.communicator = random.below(job.communicators.size());
    const std::size_t calls = job.communicators[late.communicator].calls.size();
    late.call = random.chance(50) ? 0 : random.below(calls);
    late.by = milliseconds(random.chance(50) ? random.between(1000, 10'000) : random.between(10'000, 60'000));
    late.is_busy = random.chance(70);
    job.late.push_back(late);
  }
  const bool is_beyond_patience = random.chance(20);
  if (is_beyond_patience) {
    job.late.resize(1);
    job.late[0].communicator = 0;
    job.communicators.resize(1);
    job.late[0].call = std::min(job.late[0].call, job.communicators[0].calls.size() - 1);
    job.late[0].by = job.communicators[0].timeout + seconds(random.between(2, 40));
  }
  allow_for_lateness(job, is_beyond_patience ? &job.communicators[0] : nullptr);
  const bool dies = !is_beyond_patience && random.chance(20);
  if (!dies) return;
  job.world.dead.push_back(
      {.process = draw_rank(random, job), .step = draw_step_of_calls(random), .since_mark = true});
  for (CommunicatorPlan& plan : job.communicators) plan.is_isolated = true;
}

void draw_rival(Random& random, Job& job) {
  Rival rival;
  rival.kind = static_cast<Rival::Kind>(random.below(5));
  rival.ranks = rival.kind == Rival::Kind::other_size ? job.ranks + 1 : job.ranks;
  CommunicatorPlan& plan = job.communicators.front();
  if (rival.kind == Rival::Kind::other_secret) plan.has_secret = true;
  for (Rank rank = 0; rank < rival.ranks; ++rank)
    job.world.host_of.push_back(job.world.host_of[std::min(rank, job.ranks - 1)]);
  job.rival = rival;
  job.communicators.resize(1);
  constexpr unsigned kMostLate[] = {5, 100, 2000, 6000};
  const unsigned most_late = random.pick(kMostLate);
  for (world::Process process = 0; process < job.processes(); ++process)
    job.begins_after.emplace_back(milliseconds(random.below(most_late)));
}

void draw_link_that_goes_down(Random& random, Job& job) {
  const Rank from = draw_rank(random, job);
  const Rank to = (from + static_cast<Rank>(random.between(1, job.ranks - 1))) % job.ranks;
  job.world.lost.push_back(
      {.from = from, .to = to, .step = 1, .since = microseconds(random.between(0, 200'000))});
}

}  // namespace

void allow_for_lateness(Job& job, const CommunicatorPlan* impatient) {
  Duration sum{};
  for (const Lateness& late : job.late) sum += late.by;
  for (CommunicatorPlan& plan : job.communicators) {
    plan.join_timeout += sum;
    if (&plan != impatient) plan.timeout = std::max(plan.timeout, sum + kTimeOfCall);
  }
}

void draw_event(Random& random, Job& job) {
  if (job.ranks == 1) return;
  switch (random.below(12)) {
    case 0:
    case 1: draw_death_amid_mapped_memory(random, job); return;
    case 2:
    case 3: draw_forks(random, job); return;
    case 4:
    case 5: draw_late_ranks(random, job); return;
    case 6:
    case 7: draw_rival(random, job); return;
    case 8: draw_link_that_goes_down(random, job); return;
    default: return;
  }
}

}  // namespace cohort::soak
