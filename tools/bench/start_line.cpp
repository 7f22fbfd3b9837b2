// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/start_line.h>

#include <cohort/engine/system/processor.h>

#include <sched.h>

#include <algorithm>
#include <map>

namespace cohort::bench {
namespace {

constexpr std::int64_t kHeadStartNs = 1'000;  // a release reaches the farthest core earlier
constexpr int kSpins = 2'000;
constexpr int kYields = 256;

}  // namespace

void StartLine::arrive(bool stop) noexcept {
  ++generation_;
  if (rank_ == 0) board_.stop[generation_ % 2] = stop;
  if (polls_ != Polls::spin) board_.slots[rank_].runs_on.store(::sched_getcpu(), std::memory_order_relaxed);
  const std::uint64_t all = std::uint64_t{generation_} * ranks_;
  if (board_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != all) return;
  board_.start_ns = now_ns() + (polls_ == Polls::spin ? kHeadStartNs : 0);
  board_.released.store(generation_, std::memory_order_release);
}

bool StartLine::is_released() const noexcept {
  const auto is_open = [&] { return board_.released.load(std::memory_order_acquire) == generation_; };
  if (polls_ == Polls::once) return is_open();
  const int polls = polls_ == Polls::spin ? kSpins : kYields;
  for (int poll = 0; poll < polls; ++poll) {
    if (is_open()) return true;
    if (polls_ == Polls::spin)
      processor::relax();
    else
      processor::yield();
  }
  return false;
}

bool StartLine::leave() const noexcept {
  const bool stop = board_.stop[generation_ % 2];
  while (polls_ == Polls::spin && now_ns() < board_.start_ns) processor::relax();
  return stop;
}

Rank StartLine::arrived() const noexcept {
  const std::uint64_t before = std::uint64_t{generation_ - 1} * ranks_;
  return static_cast<Rank>(board_.arrived.load(std::memory_order_relaxed) - before);
}

bool StartLine::is_spread() const {
  if (polls_ != Polls::yield) return true;
  const std::size_t most = (ranks_ + processors_ - 1) / processors_;
  std::map<int, std::size_t> carried;
  for (Rank rank = 0; rank < ranks_; ++rank)
    ++carried[board_.slots[rank].runs_on.load(std::memory_order_relaxed)];
  return std::ranges::all_of(carried, [most](const auto& one) { return one.second <= most; });
}

}  // namespace cohort::bench
