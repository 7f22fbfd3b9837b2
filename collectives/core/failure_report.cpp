// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/failure_report.h>

#include <cohort/collectives/job/listen_for.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace cohort {
namespace {

/// Ranks that are asked directly at a time, and times that others are in their place, since those waited.
constexpr std::size_t kAskedAtOnce = 4;
constexpr int kMostRounds = 4;

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

/// At a deadline, who is missing; of a connection that cannot be made, whether that rank is dead.
Task<> FailureReport::hear_of_others(const std::exception_ptr& failure) {
  const std::optional<Error> error = error_in(failure);
  if (!error || from_.health.is_failed()) co_return;
  const bool is_of_peer = error->kind() == ErrorKind::LinkFault && error->culprit() &&
                          *error->culprit() < from_.membership.size &&
                          *error->culprit() != from_.membership.rank;
  CancelScope uncancelled;
  if (error->kind() == ErrorKind::DeadlineExceeded) {
    Task<> asking = with_scope(uncancelled, ask_others());
    co_await asking;
  } else if (is_of_peer) {
    Task<> settling = with_scope(uncancelled, from_.health.settle_link_fault(*error->culprit(), *error));
    co_await settling;
  }
}

Error FailureReport::settle(const std::exception_ptr& failure) noexcept {
  std::optional<Error> own;
  from_.health.unless_out_of_memory([&] { own = find_own_failure(failure); });
  return own ? *own : from_.health.cause();
}

Error FailureReport::find_own_failure(const std::exception_ptr& failure) {
  if (from_.health.is_failed()) return from_.health.cause_of(failure);
  Error own = as_error(failure);
  if (own.kind() == ErrorKind::DeadlineExceeded) own = deadline_exceeded();
  const bool names_call = own.kind() == ErrorKind::DeadlineExceeded || own.kind() == ErrorKind::LinkFault;
  // What a step of the call has found out, about a rank.
  const bool is_finding =
      (own.kind() == ErrorKind::Mismatch || own.kind() == ErrorKind::Internal) && own.culprit();
  if (is_finding)
    own = own.with_message(
        fmt::format("{} on '{}': {}", from_.call.text(), from_.membership.name, own.message()));
  own = own.with_sequence(from_.call.number());
  if (names_call || is_finding)
    from_.health.fail(own);
  else
    give_up(fmt::format("in collective #{}, {}{}: {}", from_.call.number(), from_.call.what(),
                        from_.call.part(), own.what()),
            from_.call.number());
  return own;
}

void FailureReport::give_up(const std::string& when_and_why, std::uint64_t sequence) noexcept {
  if (from_.health.is_failed() || from_.health.is_leaving()) return;
  from_.health.unless_out_of_memory([&] {
    const Error gave_up(ErrorKind::PeerAborted,
                        fmt::format("{} gave up {}", from_.membership.self().describe(), when_and_why));
    from_.health.fail(gave_up.with_culprit(from_.membership.rank).with_sequence(sequence));
  });
}

/// At a deadline, which all ranks reach together, before somebody is named: whoever has come may not have
/// said so yet, nor whoever waits before this call, and where all have come, others may know who is to blame.
/// Who is certain to be missing may say where it is, unless it computes.
Task<> FailureReport::ask_others() {
  constexpr Duration kWhereaboutsTime = std::chrono::milliseconds(50);
  if (from_.health.is_failed() || from_.call.is_between_messages() || from_.messages.exec().peers().empty())
    co_return;
  from_.health.ask_around();
  const TimePoint asked_at = from_.engine.now();
  const auto is_known = [&] {
    const Missing now = missing();
    const bool is_enough =
        now.have_answered || (now.is_certain && from_.engine.now() - asked_at >= kWhereaboutsTime);
    return from_.health.is_failed() || (now.culprit && is_enough);
  };
  co_await listen_for(from_.engine, kQuestionTime, is_known);
  if (from_.health.is_passed_on()) co_await ask_directly();
}

std::vector<Rank> FailureReport::next_to_be_named() const {
  std::vector<Rank> ranks = missing().ranks;
  const std::uint64_t sequence = from_.messages.running().sequence;
  std::erase_if(ranks, [&](Rank rank) { return from_.health.waits_too(rank, sequence); });
  if (ranks.empty()) ranks = silent();
  std::ranges::sort(ranks);
  ranks.resize(std::min(ranks.size(), kAskedAtOnce));
  return ranks;
}

Task<> FailureReport::ask_directly() {
  std::vector<Rank> asked;
  for (int round = 0; round < kMostRounds && !from_.health.is_failed(); ++round) {
    std::vector<Rank> next = next_to_be_named();
    std::erase_if(next, [&](Rank rank) { return std::ranges::find(asked, rank) != asked.end(); });
    if (next.empty()) co_return;
    for (const Rank rank : next) from_.health.ask_directly(rank);
    asked.insert(asked.end(), next.begin(), next.end());
    const auto is_known = [&] {
      const auto is_silent = [this](Rank rank) { return from_.health.is_silent(rank); };
      return from_.health.is_failed() || std::ranges::none_of(next, is_silent);
    };
    co_await listen_for(from_.engine, kQuestionTime, is_known);
  }
}

Task<std::optional<Rank>> FailureReport::find_silent() {
  CancelScope uncancelled;
  Task<> asking = with_scope(uncancelled, ask_who_answers());
  co_await asking;
  co_return silent_while_measuring();
}

Task<> FailureReport::ask_who_answers() {
  from_.health.ask_around();
  const auto is_known = [this] { return from_.health.is_failed() || silent().empty(); };
  co_await listen_for(from_.engine, kQuestionTime, is_known);
  if (from_.health.is_passed_on()) co_await ask_directly();
}

/// Of those that did not answer, one that this rank itself waits for, if it is there: others may be through,
/// and compute. Who waits in a phase may have forgotten its arrivals; who waits for an arrival has come to
/// all phases.
std::optional<Rank> FailureReport::silent_while_measuring() const {
  const std::vector<Rank> silent = this->silent();
  const auto is_of_host = [this](Rank peer) {
    return from_.messages.arrival() && from_.messages.arrival()->includes(peer);
  };
  for (const Rank peer : silent)
    if (is_of_host(peer) && !from_.messages.arrival()->has_come_to_phase(peer)) return peer;
  for (const Rank peer : silent)
    if (is_of_host(peer) && !from_.messages.arrival()->has_arrived(peer)) return peer;
  return silent.empty() ? std::nullopt : std::optional(silent.front());
}

FailureReport::Finding FailureReport::find_what_it_waits_for() const {
  if (from_.call.is_between_messages())  // the others wait for this rank
    return {.who = fmt::format("{} is at work on it by itself", from_.membership.self().describe()),
            .advice = "look at how busy its host is",
            .culprit = from_.membership.rank};
  const Missing missing = this->missing();
  if (!missing.ranks.empty())
    return {.who = fmt::format("{} so far by {}{}",
                               from_.call.is_in_later_message() ? "its message not begun" : "not called",
                               names_of(missing.ranks), whereabouts_of(missing.ranks)),
            .advice = fmt::format("find out what {} instead",
                                  missing.ranks.size() == 1 ? "that rank does" : "those ranks do"),
            .culprit = missing.culprit ? missing.culprit : straggler_among(missing.waiting)};
  const std::vector<Rank> silent = this->silent();
  if (silent.empty())
    return {.who = "all ranks have called it and wait for data",
            .advice = "look at the network between them and at how busy their hosts are",
            .culprit = std::nullopt};
  const bool is_one = silent.size() == 1;  // of several, some may compute only
  return {.who = fmt::format("all ranks have called it, but no answer comes from {}{}", names_of(silent),
                             whereabouts_of(silent)),
          .advice = is_one ? "find out whether it is stopped, and whether its host can be reached"
                           : "find out which is stopped, or whose host cannot be reached",
          .culprit = is_one ? std::optional(silent.front()) : std::nullopt};
}

Error FailureReport::deadline_exceeded() const {
  const Finding finding = find_what_it_waits_for();
  const Error error(
      ErrorKind::DeadlineExceeded,
      fmt::format("{} on '{}' was not finished within {:.3f} s: {}; {}, or give the call a "
                  "longer deadline ({})",
                  from_.call.text(), from_.membership.name, seconds_of(from_.watchdog.elapsed()), finding.who,
                  finding.advice, name_of_limit()));
  return finding.culprit ? error.with_culprit(*finding.culprit) : error;
}

std::string_view FailureReport::name_of_limit() const noexcept {
  const bool is_of_all = from_.watchdog.deadline() == after(from_.watchdog.started(), from_.timeout);
  return is_of_all ? from_.wording.timeout : from_.wording.call_timeout;
}

Task<> FailureReport::warn_of_long_call() {
  const TimePoint started = from_.watchdog.started();
  const std::uint64_t sequence = from_.messages.running().sequence;
  co_await ask_others();
  const bool is_over = !from_.messages.running().is_running || from_.watchdog.started() != started ||
                       from_.messages.running().sequence != sequence;
  if (is_over || from_.health.is_failed()) co_return;
  std::vector<Rank> missing = this->missing().ranks;
  std::ranges::sort(missing);
  Rank lowest = 0;  // of those that wait
  for (const Rank rank : missing) lowest += rank == lowest ? 1 : 0;
  const Finding finding = find_what_it_waits_for();
  const TimePoint now = from_.engine.now();
  log(lowest == from_.membership.rank ? LogLevel::warn : LogLevel::info,
      "{} on '{}' has taken {:.0f} s: {}; {}; it is given up after another {:.0f} s ({})", from_.call.text(),
      from_.membership.name, seconds_of(now - started), finding.who, finding.advice,
      seconds_of(from_.watchdog.deadline() - now), name_of_limit());
}

/// Ranks of this host are seen to come. Others say that they have, when they stall or are asked.
FailureReport::Missing FailureReport::missing() const {
  Missing missing;
  for (const Rank peer : from_.messages.exec().peers()) {
    const bool is_seen = from_.messages.arrival() && from_.messages.arrival()->includes(peer);
    const bool is_here = (is_seen && from_.messages.arrival()->has_arrived(peer)) ||
                         from_.health.last_seen(peer) >= from_.messages.running().sequence;
    if (is_here) continue;
    missing.ranks.push_back(peer);
    const bool waits = from_.health.waits_too(peer, from_.messages.running().sequence);
    // Which of several does not wait itself, they may have yet to say.
    missing.is_certain = missing.is_certain && is_seen && (waits || !missing.culprit);
    missing.have_answered = missing.have_answered && !from_.health.is_silent(peer);
    if (waits)
      missing.waiting.push_back(peer);
    else
      missing.culprit = std::min(missing.culprit.value_or(peer), peer);
  }
  return missing;
}

std::optional<Rank> FailureReport::straggler_among(const std::vector<Rank>& waiting) const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Rank rank : waiting) least = std::min(least, from_.health.last_seen(rank));
  std::vector<Rank> last;
  for (const Rank rank : waiting)
    if (from_.health.last_seen(rank) == least) last.push_back(rank);
  if (last.size() > 1) std::erase_if(last, [this](Rank rank) { return !from_.health.is_silent(rank); });
  const auto lowest = std::ranges::min_element(last);
  return lowest == last.end() ? std::nullopt : std::optional(*lowest);
}

std::vector<Rank> FailureReport::silent() const {
  std::vector<Rank> ranks;
  for (const Rank peer : from_.messages.exec().peers())
    if (from_.health.is_silent(peer)) ranks.push_back(peer);
  std::ranges::sort(ranks);
  return ranks;
}

std::string FailureReport::names_of(std::span<const Rank> ranks) const {
  std::string names;
  for (const Rank rank : ranks)
    names += (names.empty() ? "" : ", ") + from_.membership.peers[rank].describe();
  return names;
}

/// What else is known of ranks that are missing, or silent: " (rank 1: it is in recv of ...)".
std::string FailureReport::whereabouts_of(std::span<const Rank> ranks) const {
  constexpr std::size_t kMostTold = 3;
  std::string told;
  for (const Rank rank : ranks.first(std::min(ranks.size(), kMostTold))) {
    const std::string where = from_.health.whereabouts_of(rank);
    if (!where.empty()) told += fmt::format("{}rank {}: {}", told.empty() ? "" : "; ", rank, where);
  }
  return told.empty() ? "" : fmt::format(" ({})", told);
}

}  // namespace cohort
