// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/verdict.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace cohort::soak {
namespace {

/// Beyond a deadline: what collecting everybody's word and saying goodbye may take.
constexpr Duration kSlack = std::chrono::seconds(3);

/// A death is heard of at once; those who cannot be sure ask the others, and slow ranks take their time.
constexpr Duration kNewsTime = std::chrono::seconds(1);

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// The first error that the rank was given in that communicator.
const Error* failure(const JobRun& run, Rank rank, std::size_t communicator) {
  const CommunicatorOutcome& outcome = run.outcome(rank, communicator);
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
    for (Rank rank = 0; rank < job_.ranks; ++rank) {
      if (!run_.is_through(rank)) continue;
      if (const std::string touched = run_.find_touched(rank); !touched.empty())
        complain("rank {}: {}", rank, touched);
      for (std::size_t c = 0; c < job_.communicators.size(); ++c) judge_rank(rank, c);
    }
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) judge_agreement(c);
    return std::move(complaints_);
  }

 private:
  template <class... Values>
  void complain(fmt::format_string<Values...> text, Values&&... values) {
    complaints_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  void judge_rank(Rank rank, std::size_t c) {
    const CommunicatorPlan& plan = job_.communicators[c];
    const CommunicatorOutcome& outcome = run_.outcome(rank, c);
    if (outcome.join_took > plan.join_timeout + kSlack)
      complain("rank {} took {:.3f} s to join '{}', of {:.3f} s that it has", rank,
               seconds_of(outcome.join_took), plan.name, seconds_of(plan.join_timeout));
    if (outcome.join_error)
      judge_error(rank, *outcome.join_error, fmt::format("joining '{}'", plan.name), true);
    Duration limit{};
    for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
      const CallOutcome& call = outcome.calls[i];
      limit = plan.timeout + (plan.calls[i].waits_for_last ? Duration::zero() : limit);
      const std::string what = fmt::format("call {} of '{}'", i + 1, plan.name);
      if (call.is_asked && !call.is_over) complain("rank {}: {} has no end", rank, what);
      if (!call.wrong_result.empty()) complain("rank {}: {}: {}", rank, what, call.wrong_result);
      if (call.took > limit + kSlack)
        complain("rank {}: {} took {:.3f} s, of {:.3f} s that it has", rank, what, seconds_of(call.took),
                 seconds_of(limit));
      if (call.error) judge_error(rank, *call.error, what, false);
      judge_news(rank, call, what);
      if (call.error && call.error->kind() != ErrorKind::Cancelled && outcome.later_error)
        judge_later(rank, *call.error, *outcome.later_error, what);
    }
  }

  void judge_news(Rank rank, const CallOutcome& call, const std::string& what) {
    for (const auto& dead : job_.world.dead) {
      const TimePoint died = run_.world().died_at(dead.process);
      const TimePoint begun = call.ended - call.took;
      if (call.error && died != kNever && call.ended > std::max(died, begun) + kNewsTime)
        complain("rank {}: {} ended {:.3f} s after rank {} had died", rank, what,
                 seconds_of(call.ended - died), dead.process);
    }
  }

  void judge_later(Rank rank, const Error& error, const Error& later, const std::string& what) {
    if (error.kind() != later.kind() || error.culprit() != later.culprit())
      complain("rank {}: {} failed with '{}', and a later call with '{}'", rank, what, error.what(),
               later.what());
  }

  void judge_error(Rank rank, const Error& error, const std::string& what, bool is_joining) {
    if (!job_.may_fail()) {
      complain("rank {}: {} failed without any fault: {}", rank, what, error.what());
      return;
    }
    const bool is_own_wish = error.kind() == ErrorKind::Cancelled && job_.deed && job_.deed->rank == rank;
    const bool is_possible = is_own_wish || allowed_kinds(is_joining).contains(error.kind());
    if (!is_possible)
      complain("rank {}: {} failed with a kind that no fault explains: {}", rank, what, error.what());
    // Who comes late from a communicator that failed finds those gone who came in time.
    const bool is_consequence = is_joining && job_.communicators.size() > 1 && !job_.is_concurrent;
    if (!is_consequence && error.culprit() && !culprits().contains(*error.culprit()))
      complain("rank {}: {} names rank {}, which did nothing: {}", rank, what, *error.culprit(),
               error.what());
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

  /// Deadlines of neighbouring collectives that run out together, as where a link falls silent, may be heard
  /// of in any order: each names an end of that link, and both are right.
  [[nodiscard]] bool agree(const Error& one, const Error& other) const {
    const bool are_deadlines = one.kind() == ErrorKind::DeadlineExceeded && !job_.world.lost.empty();
    return one.kind() == other.kind() && (are_deadlines || one.culprit() == other.culprit());
  }

  /// Among survivors that failed in this communicator, did not cancel themselves and could hear of each
  /// other.
  void judge_agreement(std::size_t c) {
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
  for (Rank rank = 0; rank < run.job().ranks; ++rank)
    for (std::size_t c = 0; c < run.job().communicators.size(); ++c)
      if (run.is_through(rank) && failure(run, rank, c) != nullptr) return true;
  return false;
}

std::vector<std::string> judge(JobRun& run) { return Judge(run).judge(); }

}  // namespace cohort::soak
