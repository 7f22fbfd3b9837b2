// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/run_ahead.h>

#include <cohort/collectives/job/listen_for.h>

namespace cohort {
namespace {

/// Between looks for a rank that has said nothing for as long as an answer takes: it computes.
constexpr Duration kSeldom = std::chrono::milliseconds(10);

}  // namespace

Task<> RunAhead::shorten_before(Task<> next) {
  co_await shorten();
  co_await next;
}

Task<> RunAhead::shorten() {
  Duration interval = kLookInterval;
  for (;;) {
    const std::uint64_t lowest = health_.lowest_seen();
    if (lowest + kMost / 2 >= running_.sequence) {
      joint_ = lowest;
      co_return;
    }
    health_.ask_around();
    const auto is_known = [this] {
      return health_.is_failed() || health_.have_all_answered(running_.sequence);
    };
    co_await listen_for(engine_, kQuestionTime, is_known, interval);
    interval = is_known() ? kLookInterval : kSeldom;
    co_await engine_.sleep_for(kLookInterval);
  }
}

Task<> RunAhead::hear_of_last(Arrival* arrival) {
  if (!is_one_way_ || membership_.size == 1 || health_.is_failed()) co_return;
  const std::uint64_t last = running_.sequence;
  const auto have_all_come = [this, arrival, last] {
    if (health_.is_failed() || health_.has_anybody_left_before(last)) return true;
    return arrival != nullptr ? arrival->has_caught_up() : health_.have_all_come(last);
  };
  const auto have_all_answered = [this, &have_all_come, arrival, last] {
    return have_all_come() || (arrival == nullptr && health_.have_all_answered(last));
  };
  if (!have_all_come()) {
    health_.ask_around();
    co_await listen_for(engine_, kQuestionTime, have_all_answered);
  }
  health_.check_departures(last);
  const auto is_settled = [this] { return !health_.is_resolving(); };
  co_await listen_for(engine_, kQuestionTime, is_settled);
}

}  // namespace cohort
