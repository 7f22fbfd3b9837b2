// SPDX-License-Identifier: Apache-2.0
// How a CommunicatorCore fails: what it tells its callers and the other ranks.
#include <cohort/collectives/core/communicator_core.h>

#include <cohort/collectives/calibration/calibration.h>
#include <cohort/collectives/job/establish.h>
#include <cohort/collectives/job/listen_for.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace cohort {
namespace {

/// Of a rank that leaves, where the others have failed it.
constexpr Duration kPatience = std::chrono::seconds(2);

}  // namespace

Task<Error> CommunicatorCore::silence() {
  if (health_.is_failed()) co_return health_.cause();
  std::optional<Rank> silent = root_ ? std::nullopt : plane_->awaited();
  if (!silent) {
    CancelScope uncancelled;
    Task<> asking = with_scope(uncancelled, ask_who_answers());
    co_await asking;
    if (health_.is_failed()) co_return health_.cause();
    silent = silent_while_measuring();
  }
  if (root_) co_return silence_in_group(membership_, silent);
  co_return silence_at_joining(membership_, silent, plane_->waits_for_room());
}

Task<> CommunicatorCore::give_up(Error cause) {
  health_.fail(cause);
  co_await withdraw();
  calibration_.reset();
}

Task<> CommunicatorCore::ask_who_answers() {
  health_.ask_around();
  const auto is_known = [this] { return health_.is_failed() || silent().empty(); };
  co_await listen_for(engine_, kQuestionTime, is_known);
}

/// Of those that did not answer, one that this rank itself waits for, if it is there: others may be through,
/// and compute. Who waits in a phase may have forgotten its arrivals; who waits for an arrival has come to
/// all phases.
std::optional<Rank> CommunicatorCore::silent_while_measuring() const {
  const std::vector<Rank> silent = this->silent();
  const auto is_of_host = [this](Rank peer) { return arrival_ && arrival_->includes(peer); };
  for (const Rank peer : silent)
    if (is_of_host(peer) && !arrival_->has_come_to_phase(peer)) return peer;
  for (const Rank peer : silent)
    if (is_of_host(peer) && !arrival_->has_arrived(peer)) return peer;
  return silent.empty() ? std::nullopt : std::optional(silent.front());
}

void CommunicatorCore::abort(const std::string& reason) noexcept {
  health_.unless_out_of_memory(
      [&] { leave_because(fmt::format("after collective #{}: {}", call_.number(), reason), 0); });
}

void CommunicatorCore::leave_because(const std::string& when_and_why, std::uint64_t sequence) noexcept {
  if (health_.is_failed() || stage_ >= Stage::left) return;
  health_.unless_out_of_memory([&] {
    const Error gave_up(ErrorKind::PeerAborted,
                        fmt::format("{} gave up {}", membership_.self().describe(), when_and_why));
    health_.fail(gave_up.with_culprit(membership_.rank).with_sequence(sequence));
  });
}

/// What the caller gets: the communicator's one cause, or, if this rank is the first to fail, its own error,
/// which the others hear of as this rank's giving up.
Error CommunicatorCore::settle_failure(const std::exception_ptr& failure) noexcept {
  std::optional<Error> own;
  health_.unless_out_of_memory([&] { own = find_own_failure(failure); });
  return own ? *own : health_.cause();
}

Error CommunicatorCore::find_own_failure(const std::exception_ptr& failure) {
  if (health_.is_failed()) return health_.cause_of(failure);
  Error own = as_error(failure);
  if (own.kind() == ErrorKind::DeadlineExceeded) own = deadline_exceeded();
  const bool names_call = own.kind() == ErrorKind::DeadlineExceeded || own.kind() == ErrorKind::LinkFault;
  // What a step of the call has found out, about a rank.
  const bool is_finding =
      (own.kind() == ErrorKind::Mismatch || own.kind() == ErrorKind::Internal) && own.culprit();
  if (is_finding)
    own = own.with_message(fmt::format("{} on '{}': {}", call_.text(), membership_.name, own.message()));
  own = own.with_sequence(call_.number());
  if (names_call || is_finding)
    health_.fail(own);
  else
    leave_because(
        fmt::format("in collective #{}, {}{}: {}", call_.number(), call_.what(), call_.part(), own.what()),
        call_.number());
  return own;
}

/// Without it this rank would miss what peers say, and nobody would know why the next collective hangs.
void CommunicatorCore::service_failed(const std::exception_ptr& failure) noexcept {
  if (stage_ >= (root_ ? Stage::left : Stage::ended)) return;
  bool are_told = false;
  health_.unless_out_of_memory([&] {
    fail_of_service(failure);
    are_told = true;
  });
  if (!are_told && groups_) groups_->fail_all(health_.cause());
}

void CommunicatorCore::fail_of_service(const std::exception_ptr& failure) {
  const Error own = as_error(failure);
  const Error error = Error(own.kind(), fmt::format("{} cannot go on talking with its peers on '{}': {}; {}",
                                                    membership_.self().describe(), membership_.name,
                                                    own.message(), advice_on(own.kind(), membership_.self())))
                          .with_culprit(membership_.rank);
  if (stage_ < Stage::left) health_.fail(error);
  if (groups_) groups_->fail_all(error);
}

void CommunicatorCore::link_failed(Rank peer, const Error& error) noexcept {
  if (!root_) return health_.report_link_fault(peer, error);
  health_.unless_out_of_memory([&] {
    const std::string in_world = fmt::format("{} (that is {}, in '{}')", error.message(),
                                             membership_.peers[peer].describe(), membership_.name);
    health_.report_link_fault(peer, error.with_message(in_world));
  });
}

void CommunicatorCore::time_is_over() noexcept {
  health_.unless_out_of_memory(
      [&] { operation_scope_->cancel(Error(ErrorKind::DeadlineExceeded, "the time of the call is over")); });
}

/// Ranks of this host are seen to come. Others say that they have, when they stall or are asked.
CommunicatorCore::Missing CommunicatorCore::missing() const {
  Missing missing;
  for (const Rank peer : exec_.peers()) {
    const bool is_seen = arrival_ && arrival_->includes(peer);
    const bool is_here =
        (is_seen && arrival_->has_arrived(peer)) || health_.last_seen(peer) >= running_.sequence;
    if (is_here) continue;
    missing.ranks.push_back(peer);
    const bool waits = health_.waits_too(peer, running_.sequence);
    // Which of several does not wait itself, they may have yet to say.
    missing.is_certain = missing.is_certain && is_seen && (waits || !missing.culprit);
    missing.have_answered = missing.have_answered && !health_.is_silent(peer);
    std::optional<Rank>& lowest = waits ? missing.waiting : missing.culprit;
    lowest = lowest ? std::min(*lowest, peer) : peer;
  }
  return missing;
}

std::vector<Rank> CommunicatorCore::silent() const {
  std::vector<Rank> ranks;
  for (const Rank peer : exec_.peers())
    if (health_.is_silent(peer)) ranks.push_back(peer);
  std::ranges::sort(ranks);
  return ranks;
}

std::string CommunicatorCore::names_of(std::span<const Rank> ranks) const {
  std::string names;
  for (const Rank rank : ranks) names += (names.empty() ? "" : ", ") + membership_.peers[rank].describe();
  return names;
}

/// At a deadline, which all ranks reach together, before somebody is named: whoever has come may not have
/// said so yet, nor whoever waits before this call, and where all have come, others may know who is to blame.
/// Who is certain to be missing may say where it is, unless it computes.
Task<> CommunicatorCore::ask_others() {
  constexpr Duration kWhereaboutsTime = std::chrono::milliseconds(50);
  if (health_.is_failed() || call_.is_between_messages() || exec_.peers().empty()) co_return;
  health_.ask_around();
  const TimePoint asked_at = engine_.now();
  const auto is_known = [&] {
    const Missing now = missing();
    const bool is_enough =
        now.have_answered || (now.is_certain && engine_.now() - asked_at >= kWhereaboutsTime);
    return health_.is_failed() || (now.culprit && is_enough);
  };
  co_await listen_for(engine_, kQuestionTime, is_known);
}

/// What else is known of ranks that are missing, or silent: " (rank 1: it is in recv of ...)".
std::string CommunicatorCore::whereabouts_of(std::span<const Rank> ranks) const {
  constexpr std::size_t kMostTold = 3;
  std::string told;
  for (const Rank rank : ranks.first(std::min(ranks.size(), kMostTold))) {
    const std::string where = health_.whereabouts_of(rank);
    if (!where.empty()) told += fmt::format("{}rank {}: {}", told.empty() ? "" : "; ", rank, where);
  }
  return told.empty() ? "" : fmt::format(" ({})", told);
}

/// At a deadline, who is missing; of a connection that cannot be made, whether that rank is dead.
Task<> CommunicatorCore::hear_of_others(const std::exception_ptr& failure) {
  const std::optional<Error> error = error_in(failure);
  if (!error || health_.is_failed()) co_return;
  const bool is_of_peer = error->kind() == ErrorKind::LinkFault && error->culprit() &&
                          *error->culprit() < membership_.size && *error->culprit() != membership_.rank;
  CancelScope uncancelled;
  if (error->kind() == ErrorKind::DeadlineExceeded) {
    Task<> asking = with_scope(uncancelled, ask_others());
    co_await asking;
  } else if (is_of_peer) {
    Task<> settling = with_scope(uncancelled, health_.settle_link_fault(*error->culprit(), *error));
    co_await settling;
  }
}

Error CommunicatorCore::deadline_exceeded() const {
  const double seconds = std::chrono::duration<double>(watchdog_.elapsed()).count();
  std::string who = "all ranks have called it and wait for data";
  std::string advice = "look at the network between them and at how busy their hosts are";
  std::optional<Rank> culprit;
  if (call_.is_between_messages()) {  // the others wait for this rank
    culprit = membership_.rank;
    who = fmt::format("{} is at work on it by itself", membership_.self().describe());
    advice = "look at how busy its host is";
  } else {
    const Missing missing = this->missing();
    const std::vector<Rank> silent = this->silent();
    if (!missing.ranks.empty()) {
      culprit = missing.culprit ? missing.culprit : missing.waiting;
      who = fmt::format("{} so far by {}{}",
                        call_.is_in_later_message() ? "its message not begun" : "not called",
                        names_of(missing.ranks), whereabouts_of(missing.ranks));
      advice = missing.ranks.size() == 1 ? "find out what that rank does instead"
                                         : "find out what those ranks do instead";
    } else if (!silent.empty()) {
      if (silent.size() == 1) culprit = silent.front();  // of several, some may compute only
      who = fmt::format("all ranks have called it, but no answer comes from {}{}", names_of(silent),
                        whereabouts_of(silent));
      advice = silent.size() == 1 ? "find out whether it is stopped, and whether its host can be reached"
                                  : "find out which is stopped, or whose host cannot be reached";
    }
  }
  Error error(ErrorKind::DeadlineExceeded,
              fmt::format("{} on '{}' was not finished within {:.3f} s: {}; {}, or give the call a longer "
                          "deadline (COHORT_TIMEOUT)",
                          call_.text(), membership_.name, seconds, who, advice));
  return culprit ? error.with_culprit(*culprit) : error;
}

void CommunicatorCore::report_never_awaited(Operator op) const noexcept {
  if (health_.is_failed()) return;  // nobody waits for it any more
  COHORT_ASSERT(std::uncaught_exceptions() > 0,
                "{} was called and never awaited: the other ranks wait for it; co_await it, or give it to "
                "when_all, a TaskScope or a Stream",
                to_string(op));
}

Task<> CommunicatorCore::hear_of_last_call() {
  CancelScope uncancelled;
  Arrival* const arrival = arrival_ && arrival_->sees_all() ? &*arrival_ : nullptr;
  Task<> hearing = with_scope(uncancelled, run_ahead_.hear_of_last(arrival));
  co_await hearing;
}

/// Who only gives is done before others have come. Other calls have told what was wrong with them.
bool CommunicatorCore::is_untold() const noexcept {
  if (!health_.is_failed() || has_told_ || !run_ahead_.is_one_way()) return false;
  const std::optional<std::uint64_t> failed = health_.cause().sequence();
  return failed && *failed != 0 && *failed <= call_.number();
}

/// What peers still need of a collective or message that is over here. A network that does not take it in
/// this time has failed, which is told to those who wait.
Task<> CommunicatorCore::let_data_leave() {
  try {
    co_await with_deadline(kPatience, resources_.until_sent());
  } catch (const Error& error) {
    log(LogLevel::info, "'{}' is closed before all that was sent has left: {}", membership_.name,
        error.what());
  }
}

/// To a peer that computes, and has not read so many words for as long: it would take this rank for dead.
Task<> CommunicatorCore::let_goodbyes_leave() {
  const Duration patience = health_.is_failed() ? kPatience : timeout_;
  try {
    co_await with_deadline(patience, plane_->until_sent());
  } catch (const Error& error) {
    log(LogLevel::warn, "'{}' is closed before all ranks have taken its goodbye: {}", membership_.name,
        error.what());
  }
}

}  // namespace cohort
