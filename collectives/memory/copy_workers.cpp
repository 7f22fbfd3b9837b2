// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/copy_workers.h>

#include <cohort/engine/system/processor.h>
#include <cohort/engine/tuning.h>

#include <algorithm>
#include <chrono>
#include <system_error>

namespace cohort {
namespace {

constexpr std::size_t kMostParts = 1024;

/// How often each way is tried: the first time wakes threads and faults pages in.
constexpr unsigned kStepsOnTrial = 4;

constexpr unsigned kLooksBetweenClockReads = 64;

}  // namespace

unsigned CopyWorkers::most_for(double ranks_per_core) noexcept {
  if (ranks_per_core <= 0) return 0;
  const double cores_per_rank = 1 / ranks_per_core;
  return cores_per_rank < 2
             ? 0
             : std::min(tuning::copying::kMostHelpers, static_cast<unsigned>(cores_per_rank) - 1);
}

CopyWorkers::~CopyWorkers() {
  is_over_.store(true, std::memory_order_release);
  summons_.fetch_add(1, std::memory_order_release);
  summons_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool CopyWorkers::has_threads() noexcept {
  if (!has_started_) start();
  return !threads_.empty();
}

void CopyWorkers::Trial::take(std::size_t bytes, Duration time) noexcept {
  if (steps == kStepsOnTrial) return;
  const double rate = static_cast<double>(time.count()) / static_cast<double>(bytes);
  ns_per_byte = steps == 0 ? rate : std::min(ns_per_byte, rate);
  ++steps;
}

bool CopyWorkers::is_shared_next() const noexcept {
  if (shared_.steps < kStepsOnTrial || alone_.steps < kStepsOnTrial) return shared_.steps <= alone_.steps;
  return shared_.ns_per_byte * tuning::copying::kLeastGainOfHelpers < alone_.ns_per_byte;
}

std::size_t CopyWorkers::part_of(std::size_t count, std::size_t grain, std::size_t bytes) noexcept {
  const std::size_t parts = std::clamp<std::size_t>(bytes / tuning::copying::kSharedPart, 1, kMostParts);
  const std::size_t part = (count + parts - 1) / parts;
  return (part + grain - 1) / grain * grain;
}

/// A caller that is bound to fewer processors, or for whom there is no thread, gets on with fewer.
void CopyWorkers::start() noexcept {
  has_started_ = true;
  const unsigned most = std::min(most_, engine_.platform().available_cores() - 1);
  try {
    for (unsigned i = 0; i < most; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::exception&) {
  }
}

CopyWorkers::Sharing::Sharing(CopyWorkers& workers, std::size_t parts, const Part& part) : workers_(workers) {
  workers_.is_sharing_ = true;
  workers_.part_ = &part;
  workers_.done_.store(0, std::memory_order_relaxed);
  const std::uint32_t number = workers_.step_.load(std::memory_order_relaxed).number + 1;
  workers_.step_.store({number, static_cast<std::uint16_t>(parts), 0}, std::memory_order_release);
  workers_.summons_.fetch_add(1, std::memory_order_release);
  workers_.summons_.notify_all();
}

CopyWorkers::Sharing::~Sharing() {
  Step step = workers_.step_.load(std::memory_order_acquire);
  while (!workers_.step_.compare_exchange_weak(step, {step.number, step.parts, step.parts},
                                               std::memory_order_acq_rel))
    continue;
  for (unsigned looks = 1; workers_.done_.load(std::memory_order_acquire) != step.next; ++looks)
    looks % kLooksBetweenClockReads == 0 ? processor::yield() : processor::relax();
  workers_.is_sharing_ = false;
}

Task<bool> CopyWorkers::share(std::size_t count, std::size_t grain, std::size_t bytes, const Work& work) {
  const bool is_shared = is_shared_next();
  const std::size_t part = part_of(count, grain, bytes);
  const std::size_t parts = (count + part - 1) / part;
  std::atomic<bool> may_go_on{true};
  const auto work_on = [&](std::size_t index) {
    const std::size_t begin = index * part;
    if (!work(begin, std::min(count, begin + part))) may_go_on.store(false, std::memory_order_relaxed);
  };
  const Sharing::Part one = std::cref(work_on);
  const TimePoint start = engine_.now();
  if (is_shared) {
    const Sharing sharing(*this, parts, one);
    while (may_go_on && work_on_one_part())
      if (engine_.pace().is_turn_over()) co_await engine_.let_others_run();
  } else {
    for (std::size_t index = 0; may_go_on && index < parts; ++index) {
      one(index);
      if (engine_.pace().is_turn_over()) co_await engine_.let_others_run();
    }
  }
  if (may_go_on) (is_shared ? shared_ : alone_).take(bytes, engine_.now() - start);
  co_return may_go_on;
}

bool CopyWorkers::work_on_one_part() noexcept {
  Step step = step_.load(std::memory_order_acquire);
  for (;;) {
    if (step.next == step.parts) return false;
    const Step claimed{step.number, step.parts, static_cast<std::uint16_t>(step.next + 1)};
    if (step_.compare_exchange_weak(step, claimed, std::memory_order_acq_rel)) break;
  }
  (*part_)(step.next);
  done_.fetch_add(1, std::memory_order_release);
  return true;
}

void CopyWorkers::work() {
  MonotonicClock clock;  // of a thread that no simulated world has
  for (;;) {
    // In this order: the summons that comes with the end is either seen here, or waits below.
    const std::uint32_t seen = summons_.load(std::memory_order_acquire);
    if (is_over_.load(std::memory_order_acquire)) return;
    while (work_on_one_part()) continue;
    const TimePoint until = after(clock.now(), tuning::copying::kHelperLooks);
    unsigned looks = 0;
    bool is_patient = true;
    while (is_patient && summons_.load(std::memory_order_acquire) == seen) {
      processor::relax();
      if (++looks % kLooksBetweenClockReads == 0) is_patient = clock.now() < until;
    }
    summons_.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace cohort
