// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/cancel_scope.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/engine.h>

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace cohort {
namespace {

/// Made beforehand, since scopes are also cancelled where there is no memory. Never destroyed: an engine may
/// outlive static objects.
struct Causes {
  const Error asked{ErrorKind::Cancelled, "the caller asked this work to stop"};
  const Error late{ErrorKind::DeadlineExceeded,
                   "not finished within the time given to it, and there is no memory to say more; give this "
                   "host more, or find out what the work waits for"};
};

const Causes& causes() {
  static const auto* const all = new Causes;
  return *all;
}
[[maybe_unused]] const Causes& made_at_start = causes();

Error late_by(Duration given) noexcept {
  using Seconds = std::chrono::duration<double>;
  try {
    return {ErrorKind::DeadlineExceeded,
            fmt::format("not finished within {:.3f} s; give it a longer deadline, or find what it waits for",
                        std::chrono::duration_cast<Seconds>(given).count())};
  } catch (const std::bad_alloc&) {
    return causes().late;
  }
}

}  // namespace

Operation::~Operation() { COHORT_ASSERT(!is_pending(), "a frame was destroyed with an operation in flight"); }

bool Operation::suspend(std::coroutine_handle<> waiter, CancelScope* scope) noexcept {
  COHORT_ASSERT(!is_pending(), "two coroutines wait for one operation");
  scope_ = scope;
  cancelled_ = false;
  if (scope != nullptr) {
    if (scope->is_cancelled()) {
      cancelled_ = true;
      return false;
    }
    scope->operations_.push_back(*this);
  }
  waiter_ = waiter;
  return true;
}

void Operation::complete() noexcept {
  unlink();
  Engine::current().schedule(std::exchange(waiter_, nullptr));
}

void Operation::complete_cancelled() noexcept {
  cancelled_ = true;
  complete();
}

void Operation::throw_if_cancelled() const {
  if (cancelled_) throw Error(scope_->cause());
}

CancelScope::CancelScope(CancelScope* parent) : around_(parent) {
  if (parent == nullptr) return;
  if (parent->is_cancelled()) cause_ = parent->cause_;
  parent->children_.push_back(*this);
}

CancelScope::~CancelScope() {
  COHORT_ASSERT(operations_.empty() && children_.empty(), "a cancel scope ended before the work inside it");
  unlink();
}

void CancelScope::cancel(Error cause) noexcept {
  if (is_cancelled()) return;
  cause_ = std::move(cause);
  while (Operation* operation = operations_.pop_front()) operation->end_early();
  children_.for_each([this](CancelScope& child) { child.cancel(*cause_); });
}

void CancelScope::cancel() noexcept { cancel(causes().asked); }

void CancelScope::set_deadline(Engine& engine, TimePoint deadline) {
  timer_.given = deadline == kNever ? Duration::zero() : deadline - engine.now();
  engine.timers().arm(timer_, deadline);
}

TimePoint CancelScope::deadline() const noexcept {
  TimePoint first = kNever;
  for (const CancelScope* scope = this; scope != nullptr; scope = scope->around_)
    if (scope->timer_.is_armed()) first = std::min(first, scope->timer_.when());
  return first;
}

void CancelScope::throw_if_cancelled() const {
  if (is_cancelled()) throw Error(cause());
}

void CancelScope::DeadlineTimer::expire() noexcept { scope.cancel(late_by(given)); }

}  // namespace cohort
