// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/running_call.h>
#include <cohort/collectives/core/message_runner.h>
#include <cohort/collectives/job/health.h>
#include <cohort/collectives/job/watchdog.h>

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cohort {

/// Whom the running call waits for, as far as this rank knows or hears by asking: for what its caller is told
/// when the time is over.
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
  };

  explicit FailureReport(const Sources& sources) noexcept
      : engine_(sources.engine),
        membership_(sources.membership),
        messages_(sources.messages),
        health_(sources.health),
        call_(sources.call),
        watchdog_(sources.watchdog) {}

  /// Before a failure of the call is named: what others know of it. Not cancelled with the call.
  Task<> hear_of_others(const std::exception_ptr& failure);
  /// That the call was not finished in time, with whoever is to blame as culprit, and what to do.
  [[nodiscard]] Error deadline_exceeded() const;

  /// Asks everybody, and returns when all have answered, or the time of a question is over.
  Task<> ask_who_answers();
  /// Who does not answer then, while ranks measure.
  [[nodiscard]] std::optional<Rank> silent_while_measuring() const;

 private:
  /// Who has not come to the message that runs.
  struct Missing {
    std::vector<Rank> ranks;
    std::optional<Rank> culprit;  ///< the lowest that does not wait itself, if there is one
    std::optional<Rank> waiting;  ///< the lowest that does: only the next one to be waited for
    bool is_certain = true;       ///< these it are, and no other is the culprit; else nothing else was heard
    bool have_answered = true;    ///< all of them, since this rank asked around
  };

  [[nodiscard]] Missing missing() const;
  /// Of those that have come, who does not answer: on any host, for all ranks are asked.
  [[nodiscard]] std::vector<Rank> silent() const;
  Task<> ask_others();
  [[nodiscard]] std::string names_of(std::span<const Rank> ranks) const;
  [[nodiscard]] std::string whereabouts_of(std::span<const Rank> ranks) const;

  Engine& engine_;
  const Membership& membership_;
  const MessageRunner& messages_;
  Health& health_;
  const RunningCall& call_;
  const Watchdog& watchdog_;
};

}  // namespace cohort
