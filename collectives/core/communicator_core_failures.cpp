// SPDX-License-Identifier: Apache-2.0
// How a CommunicatorCore fails, and how it leaves: what ends, and what still has to be said.
#include <cohort/collectives/core/communicator_core.h>

#include <cohort/collectives/job/establish.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>

namespace cohort {

Task<Error> CommunicatorCore::silence() {
  if (health_.is_failed()) co_return health_.cause();
  std::optional<Rank> silent = job_->plane().awaited();
  if (!silent) {
    const std::optional<Rank> found = co_await report_.find_silent();
    if (health_.is_failed()) co_return health_.cause();
    silent = found;
  }
  if (is_group_) co_return silence_in_group(membership_, silent, wording_);
  co_return silence_at_joining(membership_, silent, job_->plane().waits_for_room());
}

Task<> CommunicatorCore::give_up(Error cause) {
  health_.fail(cause);
  co_await messages_.withdraw();
  calibrator_.release();
}

void CommunicatorCore::abort(const std::string& reason) noexcept {
  health_.unless_out_of_memory([&] {
    const std::string when = call_.number() == 0 ? "before its first collective"
                                                 : fmt::format("after collective #{}", call_.number());
    report_.give_up(fmt::format("{}: {}", when, reason), 0);
  });
}

/// Without it this rank would miss what peers say, and nobody would know why the next collective hangs.
void CommunicatorCore::service_failed(const std::exception_ptr& failure) noexcept {
  if (is_group_ ? stage_ >= Stage::left : job_->is_over()) return;
  bool are_told = false;
  health_.unless_out_of_memory([&] {
    fail_of_service(failure);
    are_told = true;
  });
  if (!are_told && !is_group_) job_->groups().fail_all(health_.cause());
}

void CommunicatorCore::fail_of_service(const std::exception_ptr& failure) {
  const Error own = as_error(failure);
  const Error error = Error(own.kind(), fmt::format("{} cannot go on talking with its peers on '{}': {}; {}",
                                                    membership_.self().describe(), membership_.name,
                                                    own.message(), advice_on(own.kind(), membership_.self())))
                          .with_culprit(membership_.rank);
  if (stage_ < Stage::left) health_.fail(error);
  if (!is_group_) job_->groups().fail_all(error);
}

void CommunicatorCore::link_failed(Rank peer, const Error& error) noexcept {
  if (!is_group_) return health_.report_link_fault(peer, error);
  health_.unless_out_of_memory([&] {
    const std::string in_world = fmt::format("{} (that is {}, in '{}')", error.message(),
                                             membership_.peers[peer].describe(), membership_.name);
    health_.report_link_fault(peer, error.with_message(in_world));
  });
}

void CommunicatorCore::end_with(const Error& cause) noexcept {
  takes_calls_ = false;
  if (operation_scope_ != nullptr) operation_scope_->cancel(cause);
  if (matching_) matching_->fail(cause);
  messages_.resources().shutdown();
}

void CommunicatorCore::warn_of_long_call() noexcept {
  if (health_.is_failed()) return;
  try {
    services_.spawn(report_.warn_of_long_call());
  } catch (const std::bad_alloc&) {
    log(LogLevel::debug, "no memory to warn of a long call on '{}'", membership_.name);
  }
}

void CommunicatorCore::time_is_over() noexcept {
  health_.unless_out_of_memory(
      [&] { operation_scope_->cancel(Error(ErrorKind::DeadlineExceeded, "the time of the call is over")); });
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
  Task<> hearing = with_scope(uncancelled, messages_.hear_of_last());
  co_await hearing;
}

/// Who only gives is done before others have come. Other calls have told what was wrong with them.
bool CommunicatorCore::is_untold() const noexcept {
  if (!health_.is_failed() || has_told_ || !messages_.run_ahead().is_one_way()) return false;
  const std::optional<std::uint64_t> failed = health_.cause().sequence();
  return failed && *failed != 0 && *failed <= call_.number();
}

/// What peers still need of a collective or message that is over here. A network that does not take it in
/// this time has failed, which is told to those who wait.
Task<> CommunicatorCore::let_data_leave() {
  try {
    co_await with_deadline(Job::kPatience, messages_.resources().until_sent());
  } catch (const Error& error) {
    log(LogLevel::info, "'{}' is closed before all that was sent has left: {}", membership_.name,
        error.what());
  } catch (const std::bad_alloc&) {  // the goodbye is said all the same
  }
}

}  // namespace cohort
