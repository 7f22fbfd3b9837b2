// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/cancel_scope.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/task.h>
#include <cohort/engine/task_scope.h>

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

namespace cohort::bindings {

/// The scope around a work's body, while that runs. In a child of fork the thread's frames end though it
/// still does: then it is left as it lies.
class BodyScope : Immovable {
 public:
  BodyScope() noexcept {}  // NOLINT(modernize-use-equals-default): a union's
  ~BodyScope() {}          // NOLINT(modernize-use-equals-default)
  void begin(CancelScope* around) {
    ::new (static_cast<void*>(&scope_)) CancelScope(around);
    runs_ = true;
  }
  void end() noexcept {
    if (std::exchange(runs_, false)) scope_.~CancelScope();
  }
  /// Null: it does not run.
  [[nodiscard]] CancelScope* get() noexcept { return runs_ ? &scope_ : nullptr; }

 private:
  union {
    CancelScope scope_;
  };
  bool runs_ = false;
};

/// Something that a SharedLoop carries out, once: a coroutine, and how it ended.
///
/// Threads: body() runs where the loop is driven. is_over() and take() from any; what take() gives was
/// written before is_over() became true. Lifetime: until it is over, or as long as the loop holds it.
class Work : Immovable {
 public:
  virtual ~Work() = default;

  [[nodiscard]] bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
  /// What the body threw; null: nothing. Requires is_over().
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }
  /// Throws what the body threw. Requires is_over().
  void take() const {
    if (failure_) [[unlikely]]
      std::rethrow_exception(failure_);
  }

 protected:
  /// `within`: what it belongs to besides the loop, and is cancelled and joined with; used on the engine
  /// alone, and outlives the work's body.
  explicit Work(TaskScope* within = nullptr) : within_(within) {}

  /// Where it is over at once, it has left nothing to the engine that was not there before.
  bool is_quiet_ = false;

 private:
  friend class SharedLoop;

  virtual Task<> body() = 0;
  /// Where the loop is driven, once it is over. Short: everything on the loop waits for it.
  virtual void told() noexcept {}
  /// Where the loop is driven, when its end is asked for: false, and it goes on.
  [[nodiscard]] virtual bool may_be_cancelled() noexcept { return true; }

  TaskScope* const within_;

  // Whoever drives the loop:
  BodyScope scope_;
  std::optional<Error> cancelled_;  ///< before it was begun

  std::exception_ptr failure_;
  std::atomic<bool> is_over_{false};
  bool is_waited_for_ = false;  ///< by a thread that does not drive; guarded by the loop
  std::shared_ptr<Work> held_;  ///< itself, while nobody waits for it
};

}  // namespace cohort::bindings
