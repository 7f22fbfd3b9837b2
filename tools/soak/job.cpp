// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/job.h>

#include <cohort/collectives/schedule/algorithm_table.h>
#include <cohort/engine/world/random.h>

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

CallPlan draw_call(Random& random, Rank ranks) {
  CallPlan call;
  call.op = Operator::at(random.below(kOperators));
  call.type = kDataTypes[random.below(kDataTypes.size())];
  do {
    call.reduce = kReduceOps[random.below(kReduceOps.size())];
  } while (!applies(call.reduce, call.type));
  call.root = static_cast<Rank>(random.below(ranks));
  constexpr std::size_t kCounts[] = {0, 1, 1, 2, 3, 7, 64, 65, 255, 1000, 1025, 4097, 9000, 20'001};
  const std::size_t most = kMostBytes / size_bytes(call.type) / ranks;
  call.count = std::min(random.pick(kCounts), most);
  call.is_in_place = random.chance(40);
  call.is_allocated = random.chance(25);
  call.waits_for_last = random.chance(75);
  const std::vector<std::string_view> names = AlgorithmTable::library().names();
  if (random.chance(50)) call.algorithm = names[random.below(names.size())];
  return call;
}

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

}  // namespace

Job draw_job(std::uint64_t seed) {
  Random random(seed);
  Job job;
  job.seed = seed;
  job.ranks = static_cast<Rank>(random.between(1, kMostRanks));
  draw_world(random, job);
  draw_hindrances(random, job);
  draw_faults(random, job);
  const std::size_t communicators = random.chance(80) ? 1 : 2;
  for (std::size_t i = 0; i < communicators; ++i)
    job.communicators.push_back(draw_communicator(random, job, i));
  job.is_concurrent = random.chance(50);
  if (job.deed) {
    job.deed->communicator = random.below(communicators);
    job.deed->call = random.below(job.communicators[job.deed->communicator].calls.size());
  }
  return job;
}

CallPlan call_of(const Job& job, Rank rank, std::size_t communicator, std::size_t call) {
  CallPlan plan = job.communicators[communicator].calls[call];
  const std::optional<Deed>& deed = job.deed;
  const bool differs = deed && deed->kind == Deed::Kind::differs && deed->rank == rank &&
                       deed->communicator == communicator && deed->call == call;
  if (!differs) return plan;
  if (!plan.op->has_data) plan.op = operator_of<AllReduce>;
  ++plan.count;
  return plan;
}

namespace {

std::string describe(const CallPlan& call) {
  std::string text(to_string(call.op));
  if (call.op->has_data) text += fmt::format("({} x {}", call.count, to_string(call.type));
  if (call.op->combines) text += fmt::format(" {}", to_string(call.reduce));
  if (call.op->has_root) text += fmt::format(" of rank {}", call.root);
  if (call.op->has_data) text += ")";
  if (call.is_in_place) text += " in place";
  if (call.is_allocated) text += " allocated";
  if (!call.algorithm.empty()) text += fmt::format(" by {}", call.algorithm);
  return text;
}

std::string describe_faults(const Job& job) {
  std::string text;
  for (const auto& slow : job.world.slow)
    text += fmt::format("; rank {} is {} times slower", slow.process, slow.factor);
  for (const auto& link : job.world.degraded)
    text += fmt::format("; link {}-{} has {} times the latency", link.from, link.to, link.latency_factor);
  for (const auto& link : job.world.lost)
    text += fmt::format("; what {} sends to {} is lost from message {} on", link.from, link.to, link.step);
  for (const auto& link : job.world.broken)
    text += fmt::format("; the connection of message {} from {} to {} breaks", link.step, link.from, link.to);
  for (const auto& dead : job.world.dead)
    text += fmt::format("; rank {} {} at step {}", dead.process, dead.is_silent ? "falls silent" : "dies",
                        dead.step);
  if (const std::optional<Deed>& deed = job.deed) {
    constexpr const char* kWords[] = {"cancels", "aborts at", "leaves before", "differs in"};
    text +=
        fmt::format("; rank {} {} call {} of '{}'", deed->rank, kWords[static_cast<std::size_t>(deed->kind)],
                    deed->call + 1, job.communicators[deed->communicator].name);
    if (deed->kind == Deed::Kind::cancels)
      text += fmt::format(" after {} us", std::chrono::duration_cast<microseconds>(deed->after).count());
  }
  return text;
}

}  // namespace

std::string describe(const Job& job) {
  std::string text = fmt::format("{} ranks on hosts {}{}\n", job.ranks, fmt::join(job.world.host_of, " "),
                                 describe_faults(job));
  for (const CommunicatorPlan& plan : job.communicators) {
    text += fmt::format("  '{}' at {}{}:", plan.name, plan.address, plan.is_isolated ? ", isolated" : "");
    for (const CallPlan& call : plan.calls)
      text += fmt::format("{} {}", call.waits_for_last ? ";" : " +", describe(call));
    text += "\n";
  }
  return text;
}

}  // namespace cohort::soak
