// SPDX-License-Identifier: Apache-2.0
// What a job does about what happens to its ranks: the second half of tools/launch/local_job.h.
#include <cohort/tools/launch/local_job.h>
#include <cohort/tools/launch/rank_list.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cohort {
namespace {

/// For what a rank left behind: a pipeline that still writes, or a daemon that never will.
constexpr Duration kForLeftovers = std::chrono::milliseconds(1000);

}  // namespace

/// What the launcher of the whole job says itself.
void LocalJob::announce(std::string text) {
  const bool is_told_elsewhere = options_.share && options_.share->when_failed;
  if (!is_told_elsewhere) tasks_->spawn(say(std::move(text)));
}

/// The first one is passed on; whoever sends a second one does not want to wait.
void LocalJob::react(ProcessSignal signal, TimePoint now) {
  plan_.terminate = kNever;
  if (++signal_count_ > 1) {
    plan_.kill = now;
    plan_.abandon_output = now + kFromKillToStop;
    return;
  }
  if (!verdict_) verdict_ = kSignalStatus + static_cast<int>(signal);
  // Killing and what is left to do then are part of that time.
  plan_.kill = std::min(plan_.kill, now + options_.time_to_end * 3 / 4);
  plan_.abandon_output = now + options_.time_to_end * 9 / 10;
  if (running_count_ == 0) {
    kill_leftovers_ = std::min(kill_leftovers_, now);
    return;
  }
  announce(fmt::format("{}: ending {}", signal_name(signal), describe_ranks(running())));
  tell_running(signal);
}

/// Of a job on several hosts: what it does about the rest.
void LocalJob::tell_launcher() {
  if (!options_.share || !options_.share->when_failed) return;
  for (; told_failures_ < failed_.size(); ++told_failures_)
    options_.share->when_failed(*failed_[told_failures_]->status);
}

void LocalJob::take_events(TimePoint now) {
  tell_launcher();
  if (verdict_) return;
  if (options_.keeps_going) {
    for (RankProcess* const rank : failed_) explain(*rank);
  } else if (!failed_.empty()) {
    decide(failed_.front()->status->shell_status(), after(now, options_.time_to_notice));
    explain(*failed_.front());
  }
}

void LocalJob::explain(RankProcess& rank) {
  if (std::exchange(rank.is_explained, true)) return;
  ++explaining_;
  tasks_->spawn(explain_failure(rank));
}

void LocalJob::end_running(TimePoint now) {
  if (is_due(plan_.terminate, now)) {
    if (verdict_ != kNoReaderStatus)
      announce(fmt::format("ending {}, still running", describe_ranks(running())));
    tell_running(ProcessSignal::terminate);
    plan_.kill = std::min(plan_.kill, now + options_.time_to_end);
  }
  if (is_due(plan_.kill, now)) {
    announce(fmt::format("killing {}, which did not end when told to", describe_ranks(running())));
    tell_running(ProcessSignal::kill);
  }
}

/// All ranks have ended; perhaps not all that they started.
void LocalJob::clear_up(TimePoint now) {
  plan_.terminate = plan_.kill = kNever;
  if (!is_clear_of_leftovers_ && kill_leftovers_ == kNever)
    kill_leftovers_ = signal_count_ != 0 ? now : now + kForLeftovers;
  if (is_due(kill_leftovers_, now)) {
    is_clear_of_leftovers_ = true;
    for (RankProcess& rank : ranks_) rank.process.signal(ProcessSignal::kill);
    plan_.stop_relays = now + kFromKillToStop;
  }
  if (is_due(plan_.stop_relays, now)) {
    for (RankProcess& rank : ranks_) {
      rank.output.stop();
      rank.errors.stop();
    }
  }
  if (explaining_ == 0 && !std::exchange(is_rest_explained_, true)) explain_rest();
}

void LocalJob::tell_running(ProcessSignal signal) {
  for (RankProcess& rank : ranks_) {
    if (rank.status) continue;
    rank.was_told_to_end = true;
    rank.process.signal(signal);
    rank.process.signal(ProcessSignal::resume);  // one that is stopped would not notice
  }
}

/// Who failed after the first: most often because of it, so one line for all of a kind.
void LocalJob::explain_rest() {
  std::map<ExitStatus, std::vector<Rank>> kinds;
  for (const RankProcess& rank : ranks_)
    if (!rank.is_explained && !rank.was_told_to_end && !rank.status->is_success())
      kinds[*rank.status].push_back(rank.rank);
  for (const auto& [ending, ranks] : kinds)
    tasks_->spawn(say(fmt::format("then {} {}", describe_ranks(ranks), ending.describe(ranks.size()))));
}

/// That of the first cause. A job that keeps going has none but the ranks themselves.
int LocalJob::status() const {
  const auto is_success = [](const RankProcess& rank) { return rank.status && rank.status->is_success(); };
  if (verdict_) return *verdict_;
  if (failed_.empty() || std::ranges::any_of(ranks_, is_success)) return 0;
  return failed_.front()->status->shell_status();
}

std::vector<Rank> LocalJob::running() const {
  std::vector<Rank> ranks;
  for (const RankProcess& rank : ranks_)
    if (!rank.status) ranks.push_back(rank.rank);
  return ranks;
}

bool LocalJob::is_over() const noexcept {
  return running_count_ == 0 && is_rest_explained_ && unsaid_ == 0 &&
         std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankProcess& rank) { return rank.output.is_over() && rank.errors.is_over(); });
}

}  // namespace cohort
