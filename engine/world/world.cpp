// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/world/world.h>

#include <cohort/engine/world/driver.h>
#include <cohort/engine/world/network.h>
#include <cohort/engine/world/platform.h>

#include <algorithm>
#include <limits>

namespace cohort::world {
namespace {

class WorldClock final : public Clock {
 public:
  explicit WorldClock(const Scheduler& scheduler) : scheduler_(scheduler) {}
  [[nodiscard]] TimePoint now() noexcept override { return scheduler_.now(); }

 private:
  const Scheduler& scheduler_;
};

}  // namespace

World::World(Settings settings)
    : settings_(std::move(settings)),
      scheduler_(settings_),
      sockets_(settings_, scheduler_),
      steps_(settings_.host_of.size(), 0),
      last_steps_(settings_.host_of.size(), std::numeric_limits<std::uint64_t>::max()),
      died_at_(settings_.host_of.size(), kNever) {
  for (const ForkingProcess& forking : settings_.forking)
    forks_at_.push_back(forking.since_mark ? 0 : forking.step);
  for (const DeadProcess& dead : settings_.dead)
    if (!dead.since_mark) last_steps_[dead.process] = dead.step;
  scheduler_.set_on_end([this] { sockets_.break_all(); });
}

EngineOptions World::engine_options(Process process) {
  return {.driver = std::make_unique<WorldDriver>(*this, process),
          .clock = std::make_unique<WorldClock>(scheduler_),
          .network = std::make_unique<WorldNetwork>(*this, process),
          .platform = std::make_unique<WorldPlatform>(*this, process),
          .compute_threads = 1,
          .spin = Duration::zero()};
}

void World::mark(Process process) {
  for (const DeadProcess& dead : settings_.dead)
    if (dead.process == process && dead.since_mark && !has_died(process))
      last_steps_[process] = std::min(last_steps_[process], steps_[process] + dead.step);
  for (std::size_t i = 0; i < forks_at_.size(); ++i)
    if (settings_.forking[i].process == process && forks_at_[i] == 0)
      forks_at_[i] = steps_[process] + settings_.forking[i].step;
}

void World::step(Process process) {
  if (scheduler_.is_over() || steps_[process] >= last_steps_[process]) return;
  ++steps_[process];
  for (std::size_t i = 0; i < forks_at_.size(); ++i)
    if (settings_.forking[i].process == process && forks_at_[i] == steps_[process]) sockets_.fork(process);
  if (steps_[process] != last_steps_[process]) return;
  for (const DeadProcess& dead : settings_.dead) {
    if (dead.process != process || dead.is_silent) continue;
    sockets_.close_all_of(process);
    died_at_[process] = scheduler_.now();
  }
  scheduler_.die(process);
}

}  // namespace cohort::world
