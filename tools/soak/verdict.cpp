// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/verdict.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace cohort::soak {
namespace {

/// Beyond a deadline: what collecting everybody's word and saying goodbye may take.
constexpr Duration kSlack = std::chrono::seconds(3);

/// That of net/host/host_group.cpp.
constexpr Duration kLongestTouch = std::chrono::seconds(5);

/// A death is heard of at once; those who cannot be sure ask the others, and slow ranks take their time.
constexpr Duration kNewsTime = std::chrono::seconds(1);

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// The first error that the process was given in that communicator.
const Error* failure(const JobRun& run, Process process, std::size_t communicator) {
  const CommunicatorOutcome& outcome = run.outcome(process, communicator);
  if (outcome.join_error) return &*outcome.join_error;
  for (const CallOutcome& call : outcome.calls)
    if (call.error) return &*call.error;
  return nullptr;
}

class Judge {
 public:
  explicit Judge(JobRun& run) : run_(run), job_(run.job()) {}

  std::vector<std::string> judge() {
    if (!run_.world().finding().empty()) complaints_.push_back(run_.world().finding());
    for (Process process = 0; process < job_.processes(); ++process) {
      if (!run_.is_through(process)) continue;
      if (const std::string touched = run_.find_touched(process); !touched.empty())
        complain("{}: {}", name_of(process), touched);
      for (std::size_t c = 0; c < job_.communicators.size(); ++c) judge_process(process, c);
    }
    if (job_.rival) judge_rivals();
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) judge_agreement(c);
    return std::move(complaints_);
  }

 private:
  template <class... Values>
  void complain(fmt::format_string<Values...> text, Values&&... values) {
    complaints_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  [[nodiscard]] std::string name_of(Process process) const {
    return fmt::format("rank {}{}", job_.rank_of(process),
                       job_.is_rival(process) ? " of the second job" : "");
  }

  /// That its engine does not turn: what should have ended meanwhile ends then.
  [[nodiscard]] Duration busy_time(Process process) const {
    Duration sum{};
    for (const Lateness& late : job_.late) sum += late.rank == process ? late.by : Duration::zero();
    return sum;
  }

  /// A rank that is stopped while it touches peers' memory may keep them so long from having it back.
  [[nodiscard]] Duration touching_time() const {
    const bool may_be_stopped = std::ranges::any_of(job_.world.dead, &world::DeadProcess::is_silent);
    return may_be_stopped ? kLongestTouch : Duration::zero();
  }

  void judge_process(Process process, std::size_t c) {
    const CommunicatorPlan& plan = job_.communicators[c];
    const CommunicatorOutcome& outcome = run_.outcome(process, c);
    const Duration slack = kSlack + busy_time(process) + touching_time();
    if (outcome.join_took > plan.join_timeout + slack)
      complain("{} took {:.3f} s to join '{}', of {:.3f} s that it has", name_of(process),
               seconds_of(outcome.join_took), plan.name, seconds_of(plan.join_timeout));
    if (outcome.join_error && job_.rival)
      judge_refusal(process, *outcome.join_error);
    else if (outcome.join_error)
      judge_error(process, *outcome.join_error, fmt::format("joining '{}'", plan.name), true);
    Duration limit{};
    for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
      const CallOutcome& call = outcome.calls[i];
      limit = plan.timeout + (plan.calls[i].waits_for_last ? Duration::zero() : limit);
      const std::string what = fmt::format("call {} of '{}'", i + 1, plan.name);
      if (call.is_asked && !call.is_over) complain("{}: {} has no end", name_of(process), what);
      if (!call.wrong_result.empty()) complain("{}: {}: {}", name_of(process), what, call.wrong_result);
      if (call.took > limit + slack)
        complain("{}: {} took {:.3f} s, of {:.3f} s that it has", name_of(process), what,
                 seconds_of(call.took), seconds_of(limit));
      if (call.error) judge_error(process, *call.error, what, false);
      judge_news(process, call, what);
      if (call.error && call.error->kind() != ErrorKind::Cancelled && outcome.later_error)
        judge_later(process, *call.error, *outcome.later_error, what);
    }
  }

  void judge_news(Process process, const CallOutcome& call, const std::string& what) {
    const bool may_be_unheard = job_.faults() > job_.world.dead.size();
    if (may_be_unheard) return;
    for (const auto& dead : job_.world.dead) {
      const TimePoint died = run_.world().died_at(dead.process);
      const TimePoint begun = call.ended - call.took;
      if (call.error && died != kNever && call.ended > std::max(died, begun) + kNewsTime + busy_time(process))
        complain("{}: {} ended {:.3f} s after rank {} had died", name_of(process), what,
                 seconds_of(call.ended - died), dead.process);
    }
  }

  void judge_later(Process process, const Error& error, const Error& later, const std::string& what) {
    if (error.kind() != later.kind() || error.culprit() != later.culprit())
      complain("{}: {} failed with '{}', and a later call with '{}'", name_of(process), what, error.what(),
               later.what());
  }

  void judge_error(Process process, const Error& error, const std::string& what, bool is_joining) {
    if (!job_.may_fail()) {
      complain("{}: {} failed without any fault: {}", name_of(process), what, error.what());
      return;
    }
    const bool is_own_wish = error.kind() == ErrorKind::Cancelled && job_.deed && job_.deed->rank == process;
    const bool is_possible = is_own_wish || allowed_kinds(is_joining).contains(error.kind());
    if (!is_possible)
      complain("{}: {} failed with a kind that no fault explains: {}", name_of(process), what, error.what());
    // Who comes late from a communicator that failed finds those gone who came in time.
    const bool is_consequence = is_joining && job_.communicators.size() > 1 && !job_.is_concurrent;
    if (!is_consequence && error.culprit() && !culprits().contains(*error.culprit()))
      complain("{}: {} names rank {}, which did nothing: {}", name_of(process), what, *error.culprit(),
               error.what());
  }

  /// What a rank may be told because of another job at its address: that there is one, or who is missing.
  void judge_refusal(Process process, const Error& error) {
    constexpr std::array kKinds = {ErrorKind::DuplicateRank, ErrorKind::WorldSize, ErrorKind::AuthFailed,
                                   ErrorKind::Mismatch, ErrorKind::MissingRanks};
    constexpr std::array<std::string_view, 4> kRemedies = {"COHORT_NAME", "COHORT_ADDR", "address", "secret"};
    const bool is_taken = error.kind() == ErrorKind::SystemError && job_.rank_of(process) == 0;
    const bool is_plain = is_taken || std::ranges::find(kKinds, error.kind()) != kKinds.end();
    const std::string_view text = error.message();
    const bool says_what_to_do = std::ranges::any_of(
        kRemedies, [&](std::string_view remedy) { return text.find(remedy) != std::string_view::npos; });
    if (!is_plain || !says_what_to_do)
      complain("{} could not join beside another job, and is not told plainly: {}", name_of(process),
               error.what());
  }

  /// Two jobs that anything tells apart: all ranks of one of them meet at least, and never only some.
  void judge_rivals() {
    const bool can_be_told_apart =
        job_.rival->kind != Rival::Kind::twin && job_.rival->kind != Rival::Kind::other_size;
    if (!can_be_told_apart) return;
    const std::size_t first = joined(0, job_.ranks);
    const std::size_t second = joined(job_.ranks, job_.processes());
    const bool runs_first = first == job_.ranks;
    const bool runs_second = second == job_.rival->ranks;
    const bool is_partial = (!runs_first && first != 0) || (!runs_second && second != 0);
    if (is_partial || (!runs_first && !runs_second))
      complain("{} of {} ranks of the first job met, and {} of {} of the second", first, job_.ranks, second,
               job_.rival->ranks);
  }

  [[nodiscard]] std::size_t joined(Process first, Process end) const {
    std::size_t count = 0;
    for (Process process = first; process < end; ++process)
      count += run_.outcome(process, 0).has_joined ? 1 : 0;
    return count;
  }

  /// What can be told of the faults that were planned: docs/faults.md.
  [[nodiscard]] std::set<ErrorKind> allowed_kinds(bool is_joining) const {
    std::set<ErrorKind> kinds;
    for (const auto& dead : job_.world.dead) {
      if (dead.is_silent)
        kinds.insert({ErrorKind::DeadlineExceeded, ErrorKind::PeerSilent, ErrorKind::MissingRanks,
                      ErrorKind::LinkFault});
      if (!dead.is_silent) kinds.insert({ErrorKind::PeerDied, ErrorKind::MissingRanks, ErrorKind::LinkFault});
    }
    if (!job_.world.lost.empty())
      kinds.insert({ErrorKind::DeadlineExceeded, ErrorKind::PeerSilent, ErrorKind::MissingRanks,
                    ErrorKind::LinkFault, ErrorKind::PeerAborted});
    if (!job_.world.lost.empty() && is_joining) kinds.insert(ErrorKind::PeerDied);
    if (!job_.world.broken.empty())
      kinds.insert({ErrorKind::LinkFault, ErrorKind::PeerDied, ErrorKind::MissingRanks});
    if (job_.deed && job_.deed->kind != Deed::Kind::differs) kinds.insert(ErrorKind::PeerAborted);
    if (job_.is_late_beyond_patience()) kinds.insert(ErrorKind::DeadlineExceeded);
    // A call that was cancelled while it waited for its turn was never made: the others see the next one.
    if (job_.deed && (job_.deed->kind == Deed::Kind::differs || job_.deed->kind == Deed::Kind::cancels))
      kinds.insert(ErrorKind::Mismatch);
    return kinds;
  }

  [[nodiscard]] std::set<Rank> culprits() const {
    std::set<Rank> ranks;
    for (const auto& dead : job_.world.dead) ranks.insert(dead.process);
    for (const auto& link : job_.world.lost) ranks.insert({link.from, link.to});
    for (const auto& link : job_.world.broken) ranks.insert({link.from, link.to});
    if (job_.deed) ranks.insert(job_.deed->rank);
    for (const Lateness& late : job_.late)
      if (job_.is_late_beyond_patience()) ranks.insert(late.rank);
    if (job_.deed && job_.ranks == 2) ranks.insert({0, 1});  // two that disagree: neither is the odd one
    return ranks;
  }

  [[nodiscard]] const Error* failure_of(Rank rank, std::size_t c) const { return failure(run_, rank, c); }

  /// Whether no protocol could tell this rank what the others know: the end of a link that loses what is
  /// sent, or one that joins and cannot reach rank 0 any more.
  [[nodiscard]] bool is_cut_off(Rank rank, std::size_t c) const {
    const auto is_end = [&](const auto& link) { return link.from == rank || link.to == rank; };
    const bool is_joining = !run_.outcome(rank, c).has_joined;
    const bool has_no_witness = failed_ranks(c) <= 2 || has_failed_joining(c);
    return std::ranges::any_of(job_.world.lost, is_end) || (has_no_witness && !job_.world.broken.empty()) ||
           (is_joining && culprits().contains(0));
  }

  /// The others were through, and left.
  [[nodiscard]] std::size_t failed_ranks(std::size_t c) const {
    std::size_t count = 0;
    for (Rank rank = 0; rank < job_.ranks; ++rank) count += failure_of(rank, c) != nullptr ? 1 : 0;
    return count;
  }

  [[nodiscard]] bool has_failed_joining(std::size_t c) const {
    for (Rank rank = 0; rank < job_.ranks; ++rank)
      if (run_.outcome(rank, c).join_error) return true;
    return false;
  }

  /// Deadlines of neighbouring collectives, or of one that joins and one that has joined, may run out
  /// together where a link falls silent, and be heard of in any order: each names an end of that link, and
  /// both are right.
  [[nodiscard]] bool agree(const Error& one, const Error& other) const {
    const auto is_deadline = [](const Error& error) {
      return error.kind() == ErrorKind::DeadlineExceeded || error.kind() == ErrorKind::PeerSilent;
    };
    const bool are_deadlines = is_deadline(one) && is_deadline(other) && !job_.world.lost.empty();
    return are_deadlines || (one.kind() == other.kind() && one.culprit() == other.culprit());
  }

  /// Among survivors that failed in this communicator, did not cancel themselves and could hear of each
  /// other. Of two faults each rank names the one that it meets first.
  void judge_agreement(std::size_t c) {
    if (job_.faults() != 1) return;
    const Error* first = nullptr;
    Rank of_first = 0;
    for (Rank rank = 0; rank < job_.ranks; ++rank) {
      const Error* const failure =
          run_.is_through(rank) && !is_cut_off(rank, c) ? failure_of(rank, c) : nullptr;
      if (failure == nullptr || failure->kind() == ErrorKind::Cancelled) continue;
      if (first == nullptr) {
        first = failure;
        of_first = rank;
      } else if (!agree(*failure, *first)) {
        complain("'{}': rank {} says '{}', and rank {} says '{}'", job_.communicators[c].name, of_first,
                 first->what(), rank, failure->what());
        return;
      }
    }
  }

  JobRun& run_;
  const Job& job_;
  std::vector<std::string> complaints_;
};

}  // namespace

bool has_failures(const JobRun& run) {
  for (Process process = 0; process < run.job().processes(); ++process)
    for (std::size_t c = 0; c < run.job().communicators.size(); ++c)
      if (run.is_through(process) && failure(run, process, c) != nullptr) return true;
  return false;
}

std::vector<std::string> judge(JobRun& run) { return Judge(run).judge(); }

}  // namespace cohort::soak
