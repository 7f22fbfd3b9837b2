// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/error.h>
#include <cohort/engine/intrusive_list.h>
#include <cohort/engine/operation.h>
#include <cohort/engine/timer.h>

#include <optional>

namespace cohort {

class Engine;

/// A region of work that ends together: by cancel(), by its deadline, or with the scope around it.
///
/// Tasks inherit the scope of the task that awaits them; `co_await with_scope(scope, task)` or TaskScope set
/// another. Every wait inside registers here, so that none can outlive a deadline. The first cause wins and
/// is what the waits throw. Threads: the owning engine only. Lifetime: outlives everything that runs in it.
class CancelScope : public ListHook {
 public:
  /// The scope around this one, if any, cancels it too.
  explicit CancelScope(CancelScope* parent = nullptr);
  ~CancelScope();

  /// Ends every wait inside, now and from now on, with this cause. Idempotent. Never resumes a coroutine
  /// itself.
  void cancel(Error cause) noexcept;
  void cancel() noexcept;

  /// Cancels with DeadlineExceeded at that moment; kNever takes the deadline back.
  void set_deadline(Engine& engine, TimePoint deadline);
  /// The first of those that are still to come, of this scope and of those around it; kNever: none.
  [[nodiscard]] TimePoint deadline() const noexcept;

  [[nodiscard]] bool is_cancelled() const noexcept { return cause_.has_value(); }
  /// Why; requires is_cancelled().
  [[nodiscard]] const Error& cause() const noexcept { return *cause_; }
  void throw_if_cancelled() const;

 private:
  friend class Operation;

  struct DeadlineTimer final : Timer {
    explicit DeadlineTimer(CancelScope& owner) : scope(owner) {}
    void expire() noexcept override;
    CancelScope& scope;
    Duration given{};
  };

  const CancelScope* const around_;
  IntrusiveList<Operation> operations_;
  IntrusiveList<CancelScope> children_;
  std::optional<Error> cause_;
  DeadlineTimer timer_{*this};
};

}  // namespace cohort
