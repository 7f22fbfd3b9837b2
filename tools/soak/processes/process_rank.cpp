// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/processes/process_rank.h>

#include <cohort/collectives/run.h>
#include <cohort/engine/when_all.h>
#include <cohort/tools/soak/draws.h>
#include <cohort/tools/soak/message_contents.h>

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <numeric>
#include <thread>

namespace cohort::soak {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using world::Random;

constexpr std::size_t kMostCallsOfProcess = 12;
constexpr std::size_t kMostMessages = 6;
/// Of the buffers of one call on one rank: into the largest pieces that anything is cut into.
constexpr std::size_t kMostBytesOfProcess = std::size_t{2} << 20;
constexpr std::array<std::size_t, 10> kCounts = {0, 1, 7, 100, 1000, 5000, 16'384, 40'000, 131'072, 300'001};

/// Those of one round, the same on all ranks.
Random common_draws(const ProcessJob& job, std::uint64_t round) {
  return Random(Random(job.seed).next() + round);
}

/// Whom a group is made of: mostly of all ranks, in any order.
std::vector<Rank> draw_members(Random& random, Rank ranks) {
  std::vector<Rank> members(ranks);
  std::iota(members.begin(), members.end(), Rank{0});
  random.shuffle(std::span(members));
  if (random.chance(25)) members.resize(random.between(1, ranks));
  return members;
}

std::vector<MessagePlan> draw_messages_of_process(Random& random, Rank ranks) {
  constexpr std::size_t kBytes[] = {0, 1, 32, 4000, 30'000, 70'000, 600'000, 1'000'000};
  std::vector<MessagePlan> plans;
  const std::size_t count = random.between(1, kMostMessages);
  for (std::size_t i = 0; i < count; ++i) {
    MessagePlan plan;
    plan.from = static_cast<Rank>(random.below(ranks));
    plan.to = static_cast<Rank>((plan.from + random.between(1, ranks - 1)) % ranks);
    plan.tag = static_cast<std::int32_t>(i);
    plan.bytes = random.pick(kBytes);
    plans.push_back(plan);
  }
  return plans;
}

Task<> await_call(Communicator& group, Buffers& own, std::string_view algorithm) {
  Collective collective = call_by(group, own, algorithm);
  co_await std::move(collective);
}

}  // namespace

ProcessRank::ProcessRank(const ProcessJob& job, Communicator& world, PlantedInRank planted)
    : job_(job),
      world_(world),
      planted_(planted),
      own_(job.seed * 1000 + world.rank() + 1),
      end_(after(world.engine().now(), job.takes)) {}

Task<> ProcessRank::run() {
  for (bool goes_on = true; goes_on; ++round_) {
    constexpr std::size_t kCallsBeside = 100;
    Random common = common_draws(job_, ~round_);
    Task<> beside = call_in_world(common.chance(50) ? kCallsBeside : 0);
    co_await when_all(play(round_), std::move(beside));
    goes_on = co_await settle();
  }
  co_await print_sum();
}

Task<> ProcessRank::play(std::uint64_t round) {
  Random common = common_draws(job_, round);
  const std::vector<Rank> members = draw_members(common, job_.ranks);
  if (std::ranges::find(members, world_.rank()) == members.end()) co_return;
  try {
    Communicator group = co_await world_.group(members, fmt::format("round{}", round));
    co_await use(group, common);
    co_await group.close();
  } catch (const Error& error) {
    judge(error);
  }
}

/// So many that the ranks measure again meanwhile.
Task<> ProcessRank::call_in_world(std::size_t calls) {
  std::array<std::int32_t, 16> ones{};
  for (std::size_t i = 0; i < calls; ++i) {
    ones.fill(1);
    co_await world_.all_reduce(ones, ReduceOp::sum);
    if (std::ranges::count(ones, static_cast<std::int32_t>(world_.size())) != std::ssize(ones))
      complain("a sum of all ranks is wrong");
  }
}

Task<> ProcessRank::use(Communicator& group, Random& common) {
  const std::size_t calls = common.between(1, kMostCallsOfProcess);
  for (std::size_t i = 0; i < calls && !group.is_failed(); ++i) {
    const bool is_exchange = common.chance(25) && group.size() > 1;
    const CallPlan plan = draw_call(common, group.size(), kCounts, kMostBytesOfProcess);
    std::vector<MessagePlan> messages =
        is_exchange ? draw_messages_of_process(common, group.size()) : std::vector<MessagePlan>();
    co_await dawdle();
    Task<> step = is_exchange ? exchange(group, std::move(messages)) : call(group, plan, i);
    co_await step;
  }
}

Task<> ProcessRank::call(Communicator& group, const CallPlan& plan, std::size_t index) {
  const bool gives_wrong_data = planted_ == PlantedInRank::gives_wrong_data && world_.rank() == 0;
  Buffers& own = *buffers_.emplace_back(
      std::make_unique<Buffers>(plan, group.rank(), group.size(), gives_wrong_data ? index + 1 : index));
  if (own_.chance(job_.percent_allocated)) own.allocate(world_);
  bool is_done = false;
  try {
    co_await try_for_a_while(await_call(group, own, plan.algorithm));
    is_done = true;
  } catch (const Error& error) {
    judge(error);
    give_up(group);
  }
  done_ += is_done ? 1 : 0;
  if (is_done)
    if (const std::string wrong = own.find_wrong_result(); !wrong.empty())
      complain(fmt::format("call {}, {}, succeeded: {}", index + 1, to_string(plan.op), wrong));
  own.overwrite();
  own.freeze();
  if (planted_ == PlantedInRank::touches_old_buffer && world_.rank() == 0) own.touch();
}

Task<> ProcessRank::exchange(Communicator& group, std::vector<MessagePlan> plans) {
  std::vector<Task<>> parts;
  for (const MessagePlan& plan : plans) {
    if (plan.from != group.rank() && plan.to != group.rank()) continue;
    const bool sends = plan.from == group.rank();
    Parcel parcel{plan, sends ? contents(plan, plan.from) : std::vector<std::byte>(plan.bytes)};
    parts.push_back(take_part(group, *parcels_.emplace_back(std::make_unique<Parcel>(std::move(parcel)))));
  }
  if (!parts.empty()) co_await when_all(parts);
}

Task<> ProcessRank::take_part(Communicator& group, Parcel& parcel) {
  const MessagePlan& plan = parcel.plan;
  const bool sends = plan.from == group.rank();
  auto transfer = [&]() -> Task<> {
    if (sends)
      co_await group.send(parcel.bytes, plan.to, plan.tag);
    else
      co_await group.recv(parcel.bytes, plan.from, plan.tag);
  };
  bool is_done = false;
  try {
    co_await try_for_a_while(transfer());
    is_done = true;
  } catch (const Error& error) {
    judge(error);
    give_up(group);
  }
  done_ += is_done ? 1 : 0;
  if (is_done && !sends && parcel.bytes != contents(plan, plan.from))
    complain(
        fmt::format("a message of {} bytes from rank {} of the group succeeded, and is not what was sent",
                    plan.bytes, plan.from));
  std::ranges::fill(parcel.bytes, std::byte{0x5a});
  parcel.frozen = parcel.bytes;
}

Task<> ProcessRank::try_for_a_while(Task<> task) {
  constexpr unsigned kLimits[] = {1, 3, 10, 30, 100};
  constexpr milliseconds kPatience{60'000};
  const Duration limit = own_.chance(50) ? milliseconds(own_.pick(kLimits)) : kPatience;
  const TimePoint began = world_.engine().now();
  try {
    Task<> limited = with_deadline(limit, std::move(task));
    co_await limited;
  } catch (const Error&) {
    if (world_.engine().now() - began >= kPatience)
      complain(fmt::format("after {:g} s it is neither done, nor has anybody given it up",
                           std::chrono::duration<double>(kPatience).count()));
    throw;
  }
}

/// Computes, or waits, or does neither.
Task<> ProcessRank::dawdle() {
  const microseconds computes(own_.chance(25) ? own_.below(15'000) : 0);
  const microseconds waits(own_.chance(25) ? own_.below(10'000) : 0);
  if (computes.count() != 0) std::this_thread::sleep_for(computes);
  if (waits.count() != 0) co_await world_.engine().sleep_for(waits);
}

/// All ranks are through with the round, so nobody has a reason to touch its buffers any more.
Task<bool> ProcessRank::settle() {
  std::array<std::int32_t, 1> goes_on = {world_.engine().now() < end_ ? 1 : 0};
  co_await world_.broadcast(goes_on, 0);
  co_await world_.barrier();
  find_touched();
  buffers_.clear();
  parcels_.clear();
  co_return goes_on[0] != 0;
}

void ProcessRank::find_touched() {
  if (job_.may_write_late()) return;
  for (const auto& own : buffers_)
    if (const std::string touched = own->find_touched(); !touched.empty()) complain(touched);
  for (const auto& parcel : parcels_)
    if (parcel->bytes != parcel->frozen) complain("the bytes of a message were changed after it was over");
}

Task<> ProcessRank::print_sum() {
  std::array<std::int64_t, 3> sum = {done_, failed_, complaints_};
  co_await world_.all_reduce(sum, ReduceOp::sum);
  if (world_.rank() == 0)
    fmt::print("{} rounds: {} calls and messages done, {} given up, {} complaints\n", round_, sum[0], sum[1],
               sum[2]);
}

/// What was over before it had begun has failed nothing, and is not called again.
void ProcessRank::give_up(Communicator& group) {
  if (!group.is_failed()) group.abort("a call was given up before it had begun");
}

void ProcessRank::judge(const Error& error) {
  ++failed_;
  switch (error.kind()) {
    case ErrorKind::DeadlineExceeded:
    case ErrorKind::PeerAborted:
    case ErrorKind::Cancelled: return;
    default: complain(fmt::format("no rank has died and none is wrong, but: {}", error.what()));
  }
}

void ProcessRank::complain(const std::string& text) {
  ++complaints_;
  fmt::print("WRONG: round {}, rank {}: {}\n", round_, world_.rank(), text);
  std::fflush(stdout);
}

int run_process_rank(const ProcessJob& job, PlantedInRank planted) {
  bool is_good = false;
  const auto part = [&](Communicator& comm) -> Task<> {
    ProcessRank rank(job, comm, planted);
    co_await rank.run();
    is_good = rank.is_good();
  };
  CommunicatorOptions options = CommunicatorOptions::from_environment();
  if (job.is_first_without && options.join.rank == 0) options.pull_from_bytes = kNeverPull;
  if (job.transport == kTwoHosts) options.join.host_id = fmt::format("soak{}", options.join.rank % 2);
  const int status = run(part, std::move(options));
  return status == 0 && !is_good ? 1 : status;
}

}  // namespace cohort::soak
