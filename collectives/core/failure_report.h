// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/running_call.h>
#include <cohort/collectives/core/message_runner.h>
#include <cohort/collectives/job/health.h>
#include <cohort/collectives/job/watchdog.h>
#include <cohort/collectives/job/wording.h>

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// How the failure of a call is settled: what its caller and the other ranks are told, and of whom. Whom a
/// call waits for it finds out by what this rank knows, and by asking.
///
/// Threads: the engine's. Lifetime: the communicator's, whose parts it reads.
class FailureReport : Immovable {
 public:
  /// What it goes by.
  struct Sources {
    Engine& engine;
    const Membership& membership;
    const MessageRunner& messages;
    Health& health;
    const RunningCall& call;
    const Watchdog& watchdog;
    Duration timeout;  ///< of calls that have none of their own
    Wording wording;
  };

  explicit FailureReport(const Sources& sources) noexcept : from_(sources) {}

  /// First: what others know of it. Not cancelled with the call.
  Task<> hear_of_others(const std::exception_ptr& failure);
  /// What the caller gets: the communicator's one cause, or, if this rank is the first to fail, its own
  /// error, which the others hear of as this rank's giving up.
  [[nodiscard]] Error settle(const std::exception_ptr& failure) noexcept;
  /// This rank gives the communicator up for a reason of its own, unless it has failed or been left.
  /// `sequence`: of the call that it gives up; 0: none runs.
  void give_up(const std::string& when_and_why, std::uint64_t sequence) noexcept;

  /// Says in the log for whom the running call waits, if it still does once the others have been asked: the
  /// lowest rank that waits warns.
  Task<> warn_of_long_call();

  /// Who does not answer while ranks measure, if there is one: all are asked. Not cancelled with them.
  Task<std::optional<Rank>> find_silent();

 private:
  /// Who has not come to the message that runs.
  struct Missing {
    std::vector<Rank> ranks;
    std::optional<Rank> culprit;  ///< the lowest that does not wait itself, if there is one
    std::vector<Rank> waiting;    ///< those that do
    bool is_certain = true;       ///< these it are, and no other is the culprit; else nothing else was heard
    bool have_answered = true;    ///< all of them, since this rank asked around
  };

  [[nodiscard]] Missing missing() const;
  /// Of ranks that wait themselves, the one in the earliest message. Several in that may wait for each other:
  /// then the lowest that does not answer, if there is one.
  [[nodiscard]] std::optional<Rank> straggler_among(const std::vector<Rank>& waiting) const;
  /// For what a call waits that has taken long.
  struct Finding {
    std::string who;
    std::string advice;
    std::optional<Rank> culprit;
  };
  [[nodiscard]] Finding find_what_it_waits_for() const;
  /// Of those that have come, who does not answer: on any host, for all ranks are asked.
  [[nodiscard]] std::vector<Rank> silent() const;
  Task<> ask_others();
  Task<> ask_who_answers();
  /// Whoever would be named next, as the question that was passed on may not have come there, nor the answer
  /// from there: ranks that compute pass nothing on.
  Task<> ask_directly();
  /// The lowest of those that are missing and have not said that they wait, else of those that do not answer.
  [[nodiscard]] std::vector<Rank> next_to_be_named() const;
  [[nodiscard]] std::optional<Rank> silent_while_measuring() const;
  [[nodiscard]] Error find_own_failure(const std::exception_ptr& failure);
  /// With whoever is to blame as culprit, and what to do.
  [[nodiscard]] Error deadline_exceeded() const;
  /// What sets the time limit of the call that runs, or ran last.
  [[nodiscard]] std::string_view name_of_limit() const noexcept;
  [[nodiscard]] std::string names_of(std::span<const Rank> ranks) const;
  [[nodiscard]] std::string whereabouts_of(std::span<const Rank> ranks) const;

  const Sources from_;
};

}  // namespace cohort
