// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/job.h>

#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/engine/world/random.h>
#include <cohort/tools/soak/beside.h>
#include <cohort/tools/soak/draws.h>
#include <cohort/tools/soak/events.h>
#include <cohort/tools/soak/topology.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::soak {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using world::Random;

constexpr Rank kMostRanks = 6;
constexpr std::size_t kMostCalls = 8;
/// Of the buffers of one call on one rank.
constexpr std::size_t kMostBytes = std::size_t{300} << 10;
/// Of jobs: there ranks spin where others give way, which takes several times as long.
constexpr unsigned kPercentWithCores = 15;
/// Of communicators; their buffers hold messages that are spread.
constexpr unsigned kPercentWithConnections = 25;

CommunicatorPlan draw_communicator(Random& random, const Job& job, std::size_t index) {
  CommunicatorPlan plan;
  const std::vector<unsigned>& hosts = job.world.host_of;
  const bool is_one_host = std::ranges::all_of(hosts, [&](unsigned host) { return host == hosts.front(); });
  const bool is_unix = is_one_host && random.chance(70);
  plan.name = fmt::format("soak{}", index);
  plan.address =
      is_unix ? fmt::format("unix:soak{}", index) : fmt::format("10.0.0.{}:{}", hosts[0] + 1, 7000 + index);
  plan.has_secret = !is_unix || random.chance(50);
  plan.is_isolated = !job.world.dead.empty() || random.chance(50);
  plan.buffer_bytes = std::size_t{random.chance(80) ? 64U : 256U} << 10;
  constexpr std::size_t kPulls[] = {kNeverPull, kNeverPull, 1, 4096};
  plan.pull_from_bytes = random.pick(kPulls);
  plan.join_timeout = seconds(random.between(10, 30));
  plan.timeout = seconds(random.between(5, 20));
  const std::size_t calls = random.between(1, kMostCalls);
  for (std::size_t i = 0; i < calls; ++i) plan.calls.push_back(draw_call(random, job.ranks));
  return plan;
}

/// Two different ranks, the second on another host if there is one.
std::pair<Rank, Rank> draw_link(Random& random, const Job& job) {
  const auto from = static_cast<Rank>(random.below(job.ranks));
  std::vector<Rank> others;
  for (Rank rank = 0; rank < job.ranks; ++rank)
    if (job.world.host_of[rank] != job.world.host_of[from]) others.push_back(rank);
  if (others.empty()) return {from, (from + 1) % job.ranks};
  return {from, others[random.below(others.size())]};
}

/// What makes a job slower, but may not make it fail.
void draw_hindrances(Random& random, Job& job) {
  constexpr double kFactors[] = {2, 5, 20};
  if (random.chance(20))
    job.world.slow.push_back({static_cast<Rank>(random.below(job.ranks)), random.pick(kFactors)});
  if (random.chance(20)) {
    const auto [from, to] = draw_link(random, job);
    job.world.degraded.push_back({from, to, 1 / random.pick(kFactors), random.pick(kFactors)});
  }
}

void draw_faults(Random& random, Job& job) {
  if (job.ranks == 1 || random.chance(45)) return;
  const std::uint64_t first_steps[] = {5, 40, 150, 400};
  const std::uint64_t step = random.between(1, random.pick(first_steps));
  const auto [from, to] = draw_link(random, job);
  switch (random.below(6)) {
    case 0: {
      // Ranks of one host take thousands of steps to measure when they join.
      const bool since_mark = job.world.host_of.front() == job.world.host_of.back() && step % 2 == 0;
      job.world.dead.push_back({from, 4 * step, since_mark, random.chance(30)});
      return;
    }
    case 1: job.world.lost.push_back({from, to, step}); return;
    case 2: job.world.broken.push_back({from, to, step}); return;
    default: break;
  }
  Deed deed;
  deed.kind = random.chance(40) ? Deed::Kind::cancels : static_cast<Deed::Kind>(random.below(4));
  deed.rank = from;
  deed.after = microseconds(random.between(0, random.chance(50) ? 100 : 3000));
  job.deed = deed;
}

void draw_world(Random& random, Job& job) {
  world::Settings& world = job.world;
  world.seed = random.next();
  const auto hosts = static_cast<unsigned>(random.chance(35) ? 1 : random.between(1, job.ranks));
  for (Rank rank = 0; rank < job.ranks; ++rank)
    world.host_of.push_back(static_cast<unsigned>(rank * hosts / job.ranks));
  constexpr unsigned kLatencies[] = {1, 10, 50, 500, 5000};
  world.outside_latency = microseconds(random.pick(kLatencies));
  constexpr std::size_t kBuffers[] = {8 << 10, 16 << 10, 64 << 10, 256 << 10};
  world.buffer_bytes = random.pick(kBuffers);
  constexpr unsigned kPercent[] = {0, 0, 5, 30};
  world.tiny_read_percent = random.pick(kPercent);
  world.late_percent = random.pick(kPercent);
  world.pause_percent = random.pick(kPercent);
  constexpr unsigned kPauses[] = {2, 50, 300};
  world.longest_pause = microseconds(random.pick(kPauses));
}

/// A message waits for a way there and back for each buffer of it: over small buffers and slow links a call
/// takes longer than some have patience for.
void allow_for_latency(Job& job) {
  constexpr Duration kBearable = seconds(3);
  double factor = 1;
  for (const auto& link : job.world.degraded) factor = std::max(factor, link.latency_factor);
  const double round_trip =
      4 * factor * static_cast<double>(job.world.outside_latency.count());  // with jitter
  const auto buffers = static_cast<double>(kMostBytes / job.world.buffer_bytes + 1);
  const Duration takes(static_cast<Duration::rep>(buffers * round_trip));
  if (takes <= kBearable) return;
  for (CommunicatorPlan& plan : job.communicators) plan.timeout = std::max(plan.timeout, takes + kBearable);
}

void draw_communicators(Random& random, Job& job) {
  const std::size_t communicators = random.chance(80) ? 1 : 2;
  for (std::size_t i = 0; i < communicators; ++i)
    job.communicators.push_back(draw_communicator(random, job, i));
  job.is_concurrent = random.chance(50);
  allow_for_latency(job);
}

void draw_connections(Random& random, Job& job) {
  for (CommunicatorPlan& plan : job.communicators) {
    if (!random.chance(kPercentWithConnections)) continue;
    constexpr unsigned kConnections[] = {2, 3, 4, kMeasuredConnections};
    plan.connections = random.pick(kConnections);
    plan.buffer_bytes = std::size_t{256} << 10;
  }
}

}  // namespace

CallPlan draw_call(Random& random, Rank ranks) {
  constexpr std::size_t kCounts[] = {0, 1, 1, 2, 3, 7, 64, 65, 255, 1000, 1025, 4097, 9000, 20'001};
  return draw_call(random, ranks, kCounts, kMostBytes);
}

CallPlan draw_call(Random& random, Rank ranks, std::span<const std::size_t> counts, std::size_t most_bytes) {
  CallPlan call;
  call.op = Operator::at(random.below(kOperators));
  call.type = kDataTypes[random.below(kDataTypes.size())];
  do {
    call.reduce = kReduceOps[random.below(kReduceOps.size())];
  } while (!applies(call.reduce, call.type));
  call.root = static_cast<Rank>(random.below(ranks));
  const std::size_t most = most_bytes / size_bytes(call.type) / ranks;
  call.count = std::min(counts[random.below(counts.size())], most);
  const bool has_counts_that_differ = random.chance(75);
  if (has_counts_that_differ)
    for (std::size_t i = 0; i < how_many(call.op->counts, ranks); ++i)
      call.counts.push_back(random.below(call.count + 1));
  call.is_in_place = random.chance(40);
  call.is_allocated = random.chance(25);
  call.waits_for_last = random.chance(75);
  const std::vector<std::string_view> names = AlgorithmTable::library().names();
  if (random.chance(50)) call.algorithm = names[random.below(names.size())];
  return call;
}

Job draw_job(std::uint64_t seed, const sim::Topology& topology) {
  Random random(seed);
  Job job;
  job.seed = seed;
  job.ranks = std::max(least_ranks(topology), static_cast<Rank>(random.between(2, kMostRanks)));
  draw_world(random, job);
  settle(topology, job);
  draw_communicators(random, job);
  draw_deeds(random, topology, job);
  return job;
}

Job draw_job(std::uint64_t seed) {
  Random random(seed);
  Job job;
  job.seed = seed;
  job.ranks = static_cast<Rank>(random.between(1, kMostRanks));
  draw_world(random, job);
  draw_hindrances(random, job);
  draw_faults(random, job);
  draw_communicators(random, job);
  if (job.deed) {
    job.deed->communicator = random.below(job.communicators.size());
    job.deed->call = random.below(job.communicators[job.deed->communicator].calls.size());
  }
  if (!job.may_fail()) {
    constexpr std::uint64_t kOther = 0x6576656e7473;  // so that the draws above stay what they are
    Random of_event(seed ^ kOther);
    draw_event(of_event, job);
  }
  constexpr std::uint64_t kCores = 0x636f72650003;  // none for seeds that are kept
  job.world.has_core_each = Random(seed ^ kCores).chance(kPercentWithCores);
  constexpr std::uint64_t kConnections = 0x7374726970650001;  // none for seeds that are kept
  Random of_connections(seed ^ kConnections);
  draw_connections(of_connections, job);
  constexpr std::uint64_t kBeside = 0x626573696465;
  Random of_what_is_beside(seed ^ kBeside);
  draw_what_is_beside(of_what_is_beside, job);
  return job;
}

bool Job::is_late_beyond_patience() const noexcept {
  return std::ranges::any_of(
      late, [&](const Lateness& one) { return one.by > communicators[one.communicator].timeout; });
}

std::size_t Job::faults() const noexcept {
  return world.lost.size() + world.broken.size() + world.dead.size() + (deed ? 1 : 0) +
         (is_late_beyond_patience() ? 1 : 0);
}

CallPlan call_of(const Job& job, world::Process process, std::size_t communicator, std::size_t call) {
  CallPlan plan = job.communicators[communicator].calls[call];
  const std::optional<Deed>& deed = job.deed;
  const bool differs = deed && deed->kind == Deed::Kind::differs && deed->rank == process &&
                       deed->communicator == communicator && deed->call == call;
  if (!differs) return plan;
  if (!plan.op->has_data) plan.op = operator_of<AllReduce>;
  ++plan.count;
  for (std::size_t& count : plan.counts) ++count;
  return plan;
}

}  // namespace cohort::soak
