// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/calibration/calibration.h>

#include <cohort/collectives/calibration/spread.h>
#include <cohort/collectives/schedules/memory/staging.h>
#include <cohort/collectives/selection/selection.h>
#include <cohort/engine/system/peer_memory.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/auth/identity.h>
#include <cohort/net/host/touch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace cohort {
namespace {

constexpr Duration kMostTime = std::chrono::milliseconds(50);
/// From this size on a batch of fewer calls lasts as long.
constexpr std::size_t kLarge = std::size_t{64} << 10;
constexpr int kLargeCallsPerBatch = 2;
/// For each use.
constexpr Duration kMostPullTime = std::chrono::milliseconds(60);
/// Memory that joining takes for a moment, and a program that runs.
constexpr std::size_t kMostPullBytes = std::size_t{256} << 20;
constexpr std::size_t kMostPullBytesLater = std::size_t{32} << 20;
/// Of blocks as large pulling wins, or nearly does, if it ever will: smaller ones lie in few pages, and
/// readers wait for each other there.
constexpr std::size_t kLargeBlock = std::size_t{256} << 10;

/// Of which one is enough where it is long.
constexpr int pulls_per_batch(std::size_t bytes) noexcept {
  return bytes >= std::size_t{1} << 20 ? 1 : JointMeasurement::kCallsPerBatch;
}

/// About as many as there is time for.
constexpr std::size_t kOperatorsOfRound = 5;

void grow(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
}

}  // namespace

OnOwnCore::OnOwnCore(Platform& platform, const Membership& job)
    : platform_(platform), is_bound_([&] {
        const std::vector<unsigned> order = platform.one_of_each_core_first(job.cores_of_machine());
        const std::optional<std::size_t> core = job.own_core(order);
        return core && platform.stay_on_core(*core);
      }()) {}

OnOwnCore::~OnOwnCore() {
  if (is_bound_) platform_.leave_core();
}

Calibration::Calibration(Engine& engine, const Membership& membership, const Membership& job,
                         const AlgorithmTable& algorithms, host::HostGroup& group, KnownFigures known,
                         JointMeasurement::RunCall run)
    : engine_(engine),
      membership_(membership),
      job_(job),
      algorithms_(algorithms),
      group_(group),
      known_(std::move(known)),
      together_(engine, membership, std::move(run),
                [&algorithms](const Call& call) { return algorithms.ways_on_host(call.op).in_slots; }),
      most_pull_bytes_(kMostPullBytes) {}

Call Calibration::call_of(Operator op, std::size_t bytes) {
  CallArguments arguments{.type = DataType::float32};
  const std::size_t count = bytes / sizeof(float) / op.given_per_count(membership_.size);
  const Extent extent = op->extent({.count = count, .ranks = membership_.size}, membership_.rank);
  arguments.in = std::span(send_).first(extent.send * sizeof(float));
  arguments.out = std::span(recv_).first(extent.recv * sizeof(float));
  return make_call(op, arguments, membership_.rank, membership_.size);
}

Task<> Calibration::agree_what_to_measure(double ranks_per_core, std::size_t pull_from_bytes,
                                          Duration budget) {
  const std::optional<KnownFigures::OfSlots> own_slots = known_.slots();
  const std::optional<KnownFigures::OfPull> own_pull = known_.pull();
  std::array<double, 4> most = {ranks_per_core, static_cast<double>(pull_from_bytes), own_slots ? 0.0 : 1.0,
                                own_pull ? 0.0 : 1.0};
  co_await together_.agree_on_slowest(most);
  measures_ = most[0] <= kMostRanksPerCoreToMeasure;
  pull_from_bytes_ = most[1];
  if (!measures_) co_return;
  if (most[0] <= 1) on_own_core_.emplace(engine_.platform(), job_);
  if (most[2] == 0) slots_ = own_slots;
  if (most[3] == 0) pull_ = own_pull;
  if (slots_) co_await together_.agree_on_slowest(*slots_);
  if (pull_) co_await together_.agree_on_slowest(*pull_);
  together_.allow(budget);  // since all are here
}

JointMeasurement::Rewrite Calibration::rewriting(const Call& call) const {
  if (job_.core_supply() == CoreSupply::shared) return {};
  return [input = std::span(call.send, call.send_bytes), value = 0]() mutable {
    std::ranges::fill(input, static_cast<std::byte>(value++ & 0x3f));
  };
}

/// Before the first call that is measured. The first rank is the root of those that have one. All meet
/// before, and nobody reads there any more, and after, and nobody does yet.
Task<> Calibration::touch_rings() {
  if (std::exchange(are_rings_touched_, true)) co_return;
  const bool goes = goes_round(job_.ranks_of_host(), job_.core_supply() != CoreSupply::shared);
  const auto touch = [this, goes](Rank rank) {
    const std::size_t of_all = ring_bytes(membership_.size, goes, Givers::all);
    const std::size_t of_root = rank == 0 ? ring_bytes(membership_.size, goes, Givers::root) : 0;
    group_.touch_rings(rank, std::max(of_all, of_root));
  };
  co_await together_.meet();
  touch(membership_.rank);
  co_await together_.meet();
  for (const Rank peer : group_.members())
    if (peer != membership_.rank) touch(peer);
  co_await together_.meet();
}

Task<> Calibration::measure_slots(SlotCrossover& slots) {
  if (slots_) KnownFigures::give(*slots_, slots);
  const bool is_due = measures_ && !slots_;
  if (!is_due) co_return;
  co_await touch_rings();
  const TimePoint until = engine_.now() + kMostTime;
  together_.spread = 1;
  for (const Operator op : all_operators()) co_await measure_slots_of(op, until, slots);
  const bool is_worth_keeping = !slots.measured().empty() && together_.spread <= kMostKeptSpread;
  if (is_worth_keeping && membership_.rank == 0) known_.keep(KnownFigures::figures_of(slots));
}

/// After each size the ranks agree on the slowest rank's times, and on whether to go on.
Task<> Calibration::measure_slots_of(Operator op, TimePoint until, SlotCrossover& slots) {
  const HostWays ways = algorithms_.ways_on_host(op);
  const bool is_plain = op->has_data && op->counts == Counts::one;  // time is short: not every variant
  if (!is_plain || ways.in_slots == nullptr || ways.on_mapped_memory == nullptr) co_return;
  grow(send_, tuning::slots::kMostBytes);
  grow(recv_, tuning::slots::kMostBytes * membership_.size);
  std::vector<SlotTimes> measured;
  bool goes_on = true;
  for (const std::size_t bytes : SlotCrossover::sizes_of(op.info())) {
    if (!goes_on) break;
    Call call = call_of(op, bytes);
    const auto in_slots_or_not = [&call, &ways](std::size_t which) {
      call.algorithm = which == 0 ? ways.in_slots : ways.on_mapped_memory;
      return call;
    };
    const int calls = bytes < kLarge ? JointMeasurement::kCallsPerBatch : kLargeCallsPerBatch;
    const std::optional<std::array<double, 2>> both =
        co_await together_.time_both(in_slots_or_not, rewriting(call), calls);
    if (!both) break;
    std::array<double, 4> times = {(*both)[0], (*both)[1], engine_.now() < until ? 0.0 : 1.0,
                                   together_.spread};
    co_await together_.agree_on_slowest(times);
    together_.spread = times[3];
    measured.push_back({op, bytes, times[0], times[1]});
    const bool is_lost = times[0] > SlotCrossover::kIsLost * times[1];
    goes_on = times[2] == 0 && !is_lost;
    if (times[2] != 0) together_.allow(Duration::zero());
  }
  slots.renew(measured);
}

/// The peer's memory may be given back by now, as its process may be another one's.
bool Calibration::reaches(Rank peer, std::uint64_t address, std::uint64_t number) {
  const std::uint32_t process = membership_.peers[peer].visible_process;
  host::Touch touch;
  if (!touch.begin(group_, peer)) return false;
  std::uint64_t word = 0;
  const auto bytes = std::as_writable_bytes(std::span(&word, 1));
  if (read_peer_memory(process, bytes.data(), address, bytes.size()) != 0 || word != number) return false;
  const std::uint64_t of_this_rank = address + (1 + membership_.rank) * sizeof word;
  const bool is_written = write_peer_memory(process, bytes.data(), of_this_rank, bytes.size()) == 0;
  return touch.end() && is_written;
}

/// Tells the others where its words begin in this process, and tries to read and write the next rank's. False
/// if the kernel does not allow it. Around all ranks that says it of all pairs: who may read somebody may
/// read whom that one may.
Task<bool> Calibration::probe_pull() {
  struct Place {
    std::uint64_t number;
    std::uint64_t address;
  };
  words_.resize(1 + membership_.size);
  words_.front() = random_incarnation();
  Place mine{words_.front(), reinterpret_cast<std::uintptr_t>(words_.data())};
  std::vector<Place> places(membership_.size);
  const Call call =
      together_.agreed_call(operator_of<AllGather>, DataType::int64, std::as_bytes(std::span(&mine, 1)),
                            std::as_writable_bytes(std::span(places)));
  co_await together_.run(call);
  const Rank next = (membership_.rank + 1) % membership_.size;
  co_return reaches(next, places[next].address, places[next].number);
}

Task<> Calibration::measure_pull(PullCrossover& pull) {
  const bool is_told = pull_from_bytes_ != 0;
  const bool has_time = co_await together_.has_time();  // none where nothing is measured
  if (!has_time && !is_told && !pull_) co_return;
  const bool is_allowed = co_await probe_pull();
  const auto core_cache_bytes = static_cast<double>(engine_.platform().core_cache_bytes());
  std::array<double, 2> agreed = {is_allowed ? 0.0 : 1.0, core_cache_bytes};
  co_await together_.agree_on_slowest(agreed);
  const bool is_possible = agreed[0] == 0 && pull_from_bytes_ < static_cast<double>(PullCrossover::kNever);
  if (!is_possible) pull.set_from(PullCrossover::kNever);
  if (is_possible && is_told) pull.set_from(static_cast<std::size_t>(pull_from_bytes_));
  if (pull.is_settled()) co_return;
  const auto core_cache = static_cast<std::size_t>(agreed[1]);
  if (pull_) {
    KnownFigures::give(*pull_, core_cache, pull);
    co_return;
  }

  co_await touch_rings();
  together_.spread = 1;
  co_await measure_pull_of(operator_of<AllToAll>, pull);
  co_await measure_pull_of(operator_of<Scatter>, pull);
  co_await measure_pull_of(operator_of<Broadcast>, pull);
  if (membership_.size > 2) co_await measure_pull_of(operator_of<AllGather>, pull);
  if (!pull.ranges(pull_use_of(operator_of<AllGather>, membership_.size)).empty()) {
    co_await measure_pull_of(operator_of<AllReduce>, pull);
    pull.combine_beyond(core_cache);
  }
  const bool is_worth_keeping = pull.is_settled() && together_.spread <= kMostKeptSpread;
  if (is_worth_keeping && membership_.rank == 0) known_.keep(KnownFigures::figures_of(pull));
}

/// Of blocks, or shares, of each size, as long as there is time: the next one takes about four times as long.
Task<> Calibration::measure_pull_of(Operator op, PullCrossover& pull) {
  const PullCrossover agreed = pull;
  std::vector<PullTimes> measured;
  const Extent unit = op->extent({.count = 1, .ranks = membership_.size}, membership_.rank);
  std::size_t of_all = 0;
  for (Rank rank = 0; rank < membership_.size; ++rank) {
    const Extent extent = op->extent({.count = 1, .ranks = membership_.size}, rank);
    of_all += extent.send + extent.recv;
  }
  const TimePoint start = engine_.now();
  bool goes_on = true;
  for (const std::size_t bytes : PullCrossover::kSizes) {
    const std::size_t count = bytes * pulled_shares_of(op, membership_.size);
    const bool is_too_much = !measured.empty() && count * of_all > most_pull_bytes_;
    if (!goes_on || is_too_much) break;
    grow(send_, unit.send * count);
    grow(recv_, unit.recv * count);
    Call call = together_.agreed_call(op, DataType::float32, std::span(send_).first(unit.send * count),
                                      std::span(recv_).first(unit.recv * count));
    call.algorithm = algorithms_.ways_on_host(call.op).on_mapped_memory;
    const auto staged_or_pulled = [&pull, &call](std::size_t which) {
      pull.set_from(which == 0 ? PullCrossover::kNever : 0);
      return call;
    };
    const int calls = pulls_per_batch(bytes);
    const TimePoint began = engine_.now();
    const std::optional<std::array<double, 2>> both =
        co_await together_.time_both(staged_or_pulled, rewriting(call), calls);
    if (!both) break;
    const double next_us = 4 * in_microseconds(engine_.now() - began) * pulls_per_batch(4 * bytes) / calls;
    std::array<double, 4> times = {(*both)[0], (*both)[1], together_.spread,
                                   in_microseconds(engine_.now() - start) + next_us};
    co_await together_.agree_on_slowest(times);
    together_.spread = times[2];
    measured.push_back({bytes, times[0], times[1]});
    const bool is_lost = bytes >= kLargeBlock && times[1] > PullCrossover::kIsLost * times[0];
    goes_on = !is_lost && times[3] < in_microseconds(kMostPullTime);
  }
  pull = agreed;
  send_ = {};
  recv_ = {};
  if (!measured.empty()) pull.renew(pull_use_of(op, membership_.size), measured);
}

Task<> Calibration::measure_again(const LaterMeasuring::Round& round, std::size_t core_cache_bytes,
                                  PullCrossover* pull, SlotCrossover& slots) {
  are_rings_touched_ = true;
  most_pull_bytes_ = kMostPullBytesLater;
  together_.allow(round.budget);
  together_.spread = 1;
  const unsigned turn = round.number / 2;  // by turns: one would leave the other no time
  const bool is_for_pull = pull != nullptr && round.number % 2 == 0;
  if (is_for_pull) co_await measure_pull_again(turn, core_cache_bytes, *pull);
  const std::vector<Operator> ops(all_operators().begin(), all_operators().end());
  const TimePoint until = engine_.now() + round.budget;
  for (std::size_t i = 0; i < ops.size() && !is_for_pull; ++i) {
    const Operator op = ops[(i + kOperatorsOfRound * turn) % ops.size()];
    co_await measure_slots_of(op, until, slots);
  }
  const bool is_worth_keeping = membership_.rank == 0 && together_.spread <= kMostKeptSpread;
  if (!is_worth_keeping) co_return;
  if (!slots.measured().empty()) known_.keep(KnownFigures::figures_of(slots));
  if (pull != nullptr && pull->is_settled()) known_.keep(KnownFigures::figures_of(*pull));
}

/// One use, another one each time; all, if there was no time before.
Task<> Calibration::measure_pull_again(unsigned round, std::size_t core_cache_bytes, PullCrossover& pull) {
  if (!pull.is_settled()) {
    co_await measure_pull(pull);
    co_return;
  }
  std::vector<Operator> ops;
  for (const Operator op : {operator_of<AllToAll>, operator_of<Scatter>, operator_of<Broadcast>,
                            operator_of<AllGather>, operator_of<AllReduce>}) {
    const std::vector<PullTimes>& measured = pull.measured(pull_use_of(op, membership_.size));
    if (!measured.empty()) ops.push_back(op);
  }
  if (ops.empty()) co_return;
  co_await measure_pull_of(ops[round % ops.size()], pull);
  pull.combine_beyond(core_cache_bytes);
}

}  // namespace cohort
