// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/verdict.h>

#include <cohort/tools/soak/expectation.h>

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

/// Of a group's call, whose ranks these are.
Error in_communicator(const Error& error, const std::vector<Rank>& members) {
  if (!error.culprit() || *error.culprit() >= members.size()) return error;
  return error.with_culprit(members[*error.culprit()]);
}

double seconds_in(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// The first error that the process was given in that communicator.
const Error* failure(const JobRun& run, Process process, std::size_t communicator) {
  const CommunicatorOutcome& outcome = run.outcome(process, communicator);
  if (outcome.join_error) return &*outcome.join_error;
  for (const CallOutcome& call : outcome.calls)
    if (call.error) return &*call.error;
  for (const CallOutcome& message : outcome.messages)
    if (message.error) return &*message.error;
  return outcome.end_error ? &*outcome.end_error : nullptr;
}

/// The first error that the process was given in its group, with the culprit's rank in the communicator.
std::optional<Error> failure_in_group(const JobRun& run, Process process, std::size_t communicator) {
  const GroupOutcome& group = run.outcome(process, communicator).group;
  if (group.make_error) return group.make_error;
  for (const CallOutcome& call : group.calls)
    if (call.error) return in_communicator(*call.error, run.group_of(process, communicator));
  if (group.end_error) return in_communicator(*group.end_error, run.group_of(process, communicator));
  return std::nullopt;
}

class Judge {
 public:
  explicit Judge(JobRun& run) : run_(run), job_(run.job()) {
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) expected_.push_back(expectations_of(job_, c));
  }

  std::vector<std::string> judge() {
    if (!run_.world().finding().empty()) complaints_.push_back(run_.world().finding());
    for (Process process = 0; process < job_.processes(); ++process) {
      if (!run_.is_through(process)) continue;
      if (const std::string touched = run_.find_touched(process); !touched.empty())
        complain("{}: {}", name_of(process), touched);
      for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
        judge_process(process, c);
        judge_messages(process, c);
        judge_group(process, c);
      }
    }
    if (job_.rival) judge_rivals();
    for (std::size_t c = 0; c < job_.communicators.size(); ++c) {
      judge_agreement(c);
      judge_agreement_of_groups(c);
    }
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
    const bool may_compute = !job_.late.empty();
    return may_be_stopped || may_compute ? kLongestTouch : Duration::zero();
  }

  void judge_process(Process process, std::size_t c) {
    const CommunicatorPlan& plan = job_.communicators[c];
    const CommunicatorOutcome& outcome = run_.outcome(process, c);
    const Duration slack = kSlack + busy_time(process) + touching_time();
    if (outcome.join_took > plan.join_timeout + slack)
      complain("{} took {:.3f} s to join '{}', of {:.3f} s that it has", name_of(process),
               seconds_in(outcome.join_took), plan.name, seconds_in(plan.join_timeout));
    if (outcome.join_error && job_.rival)
      judge_refusal(process, *outcome.join_error);
    else if (outcome.join_error)
      judge_error(process, c, *outcome.join_error, fmt::format("joining '{}'", plan.name), true);
    if (outcome.end_error)
      judge_error(process, c, *outcome.end_error, fmt::format("the end of '{}'", plan.name), false);
    Duration limit{};
    for (std::size_t i = 0; i < outcome.calls.size(); ++i) {
      const CallOutcome& call = outcome.calls[i];
      limit = plan.timeout + (plan.calls[i].waits_for_last ? Duration::zero() : limit);
      const std::string what = fmt::format("call {} of '{}'", i + 1, plan.name);
      if (call.is_asked && !call.is_over) complain("{}: {} has no end", name_of(process), what);
      if (!call.wrong_result.empty()) complain("{}: {}: {}", name_of(process), what, call.wrong_result);
      if (call.took > limit + slack)
        complain("{}: {} took {:.3f} s, of {:.3f} s that it has", name_of(process), what,
                 seconds_in(call.took), seconds_in(limit));
      if (call.error) judge_error(process, c, *call.error, what, false);
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
                 seconds_in(call.ended - died), dead.process);
    }
  }

  void judge_later(Process process, const Error& error, const Error& later, const std::string& what) {
    if (error.kind() != later.kind() || error.culprit() != later.culprit())
      complain("{}: {} failed with '{}', and a later call with '{}'", name_of(process), what, error.what(),
               later.what());
  }

  /// Complains, if nothing can have failed.
  [[nodiscard]] bool is_without_fault(Process process, const Error& error, const std::string& what) {
    if (job_.may_fail()) return false;
    complain("{}: {} failed without any fault: {}", name_of(process), what, error.what());
    return true;
  }

  void judge_error(Process process, std::size_t c, const Error& error, const std::string& what,
                   bool is_joining) {
    if (is_without_fault(process, error, what)) return;
    const bool is_own_wish = error.kind() == ErrorKind::Cancelled && job_.deed && job_.deed->rank == process;
    if (is_own_wish) return;
    // Who comes late from a communicator that failed finds those gone who came in time.
    const bool is_consequence = is_joining && job_.communicators.size() > 1 && !job_.is_concurrent;
    const bool names_joining = is_joining || has_failed_joining(c);
    const ErrorOf of = names_joining ? ErrorOf::joining : ErrorOf::communicator;
    const bool is_explained = std::ranges::any_of(expected_[c], [&](const Expectation& one) {
      const bool is_kind =
          one.kinds.contains(error.kind()) || (names_joining && one.kinds_of_joining.contains(error.kind()));
      return is_kind && (is_consequence || one.explains_culprit(error, of));
    });
    if (!is_explained)
      complain("{}: {} failed in a way that no fault explains: {}{}", name_of(process), what, error.what(),
               culprit_of(error));
  }

  [[nodiscard]] static std::string culprit_of(const Error& error) {
    return error.culprit() ? fmt::format(" [rank {}]", *error.culprit()) : " [nobody]";
  }

  /// They fail together with the calls of their communicator, of one cause.
  void judge_messages(Process process, std::size_t c) {
    const CommunicatorPlan& plan = job_.communicators[c];
    const CommunicatorOutcome& outcome = run_.outcome(process, c);
    const Duration slack = kSlack + busy_time(process) + touching_time();
    for (std::size_t i = 0; i < outcome.messages.size(); ++i) {
      const MessageOutcome& message = outcome.messages[i];
      const std::string what = fmt::format("message {} of '{}'", i + 1, plan.name);
      if (message.is_asked && !message.is_over) complain("{}: {} has no end", name_of(process), what);
      if (!message.wrong_result.empty()) complain("{}: {}: {}", name_of(process), what, message.wrong_result);
      if (message.took > plan.timeout + slack)
        complain("{}: {} took {:.3f} s, of {:.3f} s that it has", name_of(process), what,
                 seconds_in(message.took), seconds_in(plan.timeout));
      if (message.error) judge_error(process, c, *message.error, what, false);
      judge_news(process, message, what);
      const Error* const first = failure(run_, process, c);
      const bool is_same_cause = first == nullptr || first->kind() == ErrorKind::Cancelled;
      if (message.error && !is_same_cause) judge_later(process, *message.error, *first, what);
    }
    judge_senders(process, c);
  }

  /// Who receives from anybody gets each message once.
  void judge_senders(Process process, std::size_t c) {
    const std::vector<MessagePlan>& plans = job_.communicators[c].messages;
    std::multiset<Rank> expected;
    std::multiset<Rank> got;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const MessageOutcome& message = run_.outcome(process, c).messages[i];
      if (!plans[i].is_for_anybody || plans[i].to != process) continue;
      if (!message.is_over || message.error) return;
      expected.insert(plans[i].from);
      got.insert(message.from);
    }
    if (expected != got)
      complain("{}: has messages of ranks {} with the tag for anybody, and not of {}", name_of(process),
               fmt::join(got, ", "), fmt::join(expected, ", "));
  }

  void judge_group(Process process, std::size_t c) {
    const CommunicatorPlan& plan = job_.communicators[c];
    const GroupOutcome& group = run_.outcome(process, c).group;
    const std::vector<Rank> members = run_.group_of(process, c);
    const Duration slack = kSlack + busy_time(process) + touching_time();
    if (!plan.group) return;
    const std::string of = fmt::format("the group in '{}'", plan.name);
    // A split is a call and then the making; and what is made is established.
    if (group.make_took > 3 * plan.timeout + slack)
      complain("{}: making {} took {:.3f} s", name_of(process), of, seconds_in(group.make_took));
    if (group.make_error) judge_making(process, c, *group.make_error, "making " + of);
    if (group.is_asked && !group.is_made && !group.make_error)
      complain("{}: making {} has no end", name_of(process), of);
    if (group.end_error)
      judge_error_of_group(process, c, in_communicator(*group.end_error, members), "the end of " + of);
    for (std::size_t i = 0; i < group.calls.size(); ++i) {
      const CallOutcome& call = group.calls[i];
      const std::string what = fmt::format("call {} of {}", i + 1, of);
      if (call.is_asked && !call.is_over) complain("{}: {} has no end", name_of(process), what);
      if (!call.wrong_result.empty()) complain("{}: {}: {}", name_of(process), what, call.wrong_result);
      if (call.took > plan.timeout + slack)
        complain("{}: {} took {:.3f} s, of {:.3f} s that it has", name_of(process), what,
                 seconds_in(call.took), seconds_in(plan.timeout));
      if (call.error) judge_error_of_group(process, c, in_communicator(*call.error, members), what);
      judge_news(process, call, what);
      if (call.error && group.later_error) judge_later(process, *call.error, *group.later_error, what);
    }
  }

  /// What is none of their own faults members hear of from those that could not make it.
  void judge_error_of_group(Process process, std::size_t c, const Error& error, const std::string& what) {
    if (is_without_fault(process, error, what)) return;
    const std::vector<Rank> members = run_.group_of(process, c);
    const bool is_explained = std::ranges::any_of(expected_[c], [&](const Expectation& one) {
      return one.is_felt_among(members) && one.kinds.contains(error.kind()) &&
             one.explains_culprit(error, ErrorOf::group);
    });
    const bool is_of_making = std::ranges::any_of(members, [&](Rank rank) {
      const std::optional<Error>& made = run_.outcome(rank, c).group.make_error;
      return made && made->kind() == error.kind() && made->culprit() == error.culprit();
    });
    if (!is_explained && !is_of_making)
      complain("{}: {} failed in a way that no fault among its members explains: {}{}", name_of(process),
               what, error.what(), culprit_of(error));
  }

  /// A split is a call of the communicator, and fails with it. Who could not join or had no colour to make a
  /// group of is missed by the others.
  void judge_making(Process process, std::size_t c, const Error& error, const std::string& what) {
    if (is_without_fault(process, error, what)) return;
    if (!is_making_explained(process, c, error) && !is_missed(error, process, c))
      complain("{}: {} failed in a way that no fault explains: {}{}", name_of(process), what, error.what(),
               culprit_of(error));
  }

  [[nodiscard]] bool is_making_explained(Process process, std::size_t c, const Error& error) const {
    const std::vector<Rank> members = run_.group_of(process, c);
    const bool is_split = job_.communicators[c].group->is_split;
    const bool names_joining = has_failed_joining(c);
    const ErrorOf of = names_joining ? ErrorOf::joining : is_split ? ErrorOf::communicator : ErrorOf::group;
    return std::ranges::any_of(expected_[c], [&](const Expectation& one) {
      const bool is_kind =
          one.kinds.contains(error.kind()) || (names_joining && one.kinds_of_joining.contains(error.kind()));
      return (is_split || one.is_felt_among(members)) && is_kind && one.explains_culprit(error, of);
    });
  }

  /// Whether it names a rank that could not take part because of a fault: two that only missed each other are
  /// no excuse.
  [[nodiscard]] bool is_missed(const Error& error, Process process, std::size_t c) const {
    constexpr std::array kKinds = {ErrorKind::PeerAborted, ErrorKind::PeerDied, ErrorKind::DeadlineExceeded};
    if (!error.culprit() || *error.culprit() == process) return false;
    const CommunicatorOutcome& missed = run_.outcome(*error.culprit(), c);
    const std::optional<Error>& of_missed = missed.group.make_error;
    const bool has_failed =
        missed.join_error || (of_missed && is_making_explained(*error.culprit(), c, *of_missed));
    return has_failed && std::ranges::find(kKinds, error.kind()) != kKinds.end();
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

  [[nodiscard]] bool may_be_culprit(Rank rank, std::size_t c) const {
    return std::ranges::any_of(expected_[c],
                               [rank](const Expectation& one) { return one.culprits.contains(rank); });
  }

  [[nodiscard]] const Error* failure_of(Rank rank, std::size_t c) const { return failure(run_, rank, c); }

  /// Whether no protocol could tell this rank what the others know: the end of a link that loses what is
  /// sent, or one that joins and cannot reach rank 0 any more.
  [[nodiscard]] bool is_cut_off(Rank rank, std::size_t c) const {
    const auto is_end = [&](const auto& link) { return link.from == rank || link.to == rank; };
    const bool is_joining = !run_.outcome(rank, c).has_joined;
    const bool has_no_witness = failed_ranks(c) <= 2 || has_failed_joining(c);
    return std::ranges::any_of(job_.world.lost, is_end) || (has_no_witness && !job_.world.broken.empty()) ||
           (is_joining && may_be_culprit(0, c));
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
  [[nodiscard]] bool agree(const Error& one, const Error& other, std::size_t c, ErrorOf of) const {
    const auto is_deadline = [](const Error& error) {
      return error.kind() == ErrorKind::DeadlineExceeded || error.kind() == ErrorKind::PeerSilent;
    };
    const Error& of_nobody = one.culprit() ? other : one;
    const bool may_name_nobody =
        !of_nobody.culprit() && std::ranges::any_of(expected_[c], [&](const auto& each) {
          return each.explains_culprit(of_nobody, of);
        });
    const bool may_differ = !job_.world.lost.empty() || may_name_nobody;
    const bool are_deadlines = is_deadline(one) && is_deadline(other) && may_differ;
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
      } else if (!agree(*failure, *first, c, ErrorOf::communicator)) {
        complain("'{}': rank {} says '{}', and rank {} says '{}'", job_.communicators[c].name, of_first,
                 first->what(), rank, failure->what());
        return;
      }
    }
  }

  /// Among the members of each group that could hear of each other and were not held up by something else.
  void judge_agreement_of_groups(std::size_t c) {
    const std::optional<GroupPlan>& plan = job_.communicators[c].group;
    const bool may_differ = job_.faults() != 1 || !job_.world.broken.empty();
    if (!plan || may_differ) return;
    for (const int color : std::set<int>(plan->colors.begin(), plan->colors.end()))
      judge_agreement_of_group(c, plan->members(color));
  }

  void judge_agreement_of_group(std::size_t c, const std::vector<Rank>& members) {
    std::optional<Error> first;
    Rank of_first = 0;
    for (const Rank rank : members) {
      const std::optional<Error> failure = failure_in_group(run_, rank, c);
      const bool counts = failure && run_.is_through(rank) && !is_cut_off(rank, c) &&
                          !run_.outcome(rank, c).join_error && !is_missed(*failure, rank, c);
      if (!counts) continue;
      if (!first) {
        first = failure;
        of_first = rank;
      } else if (!agree(*failure, *first, c, ErrorOf::group)) {
        complain("a group in '{}': rank {} says '{}', and rank {} says '{}'", job_.communicators[c].name,
                 of_first, first->what(), rank, failure->what());
        return;
      }
    }
  }

  JobRun& run_;
  const Job& job_;
  std::vector<std::vector<Expectation>> expected_;  ///< by communicator
  std::vector<std::string> complaints_;
};

}  // namespace

bool has_failures(const JobRun& run) {
  for (Process process = 0; process < run.job().processes(); ++process)
    for (std::size_t c = 0; c < run.job().communicators.size(); ++c) {
      const bool has_failure = failure(run, process, c) != nullptr || failure_in_group(run, process, c);
      if (run.is_through(process) && has_failure) return true;
    }
  return false;
}

std::vector<std::string> judge(JobRun& run) { return Judge(run).judge(); }

}  // namespace cohort::soak
