// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/assert.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/task.h>

#include <utility>

namespace cohort {

/// Lets one coroutine at a time into a piece of work that suspends: first come, first served.
///
/// `const Mutex::Guard guard = co_await mutex.lock();` holds it until the guard dies. Threads: one engine.
/// Errors: lock() throws the cause of its cancel scope if it had to wait. Lifetime: outlives every guard and
/// every wait, asserted.
class Mutex : Immovable {
 public:
  Mutex() = default;
  ~Mutex() { COHORT_ASSERT(!is_locked_, "a mutex ended while somebody holds it"); }

  class Guard {
   public:
    /// Of a mutex that is held already.
    explicit Guard(Mutex& mutex) noexcept : mutex_(&mutex) {}
    Guard(Guard&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (mutex_ != nullptr) mutex_->unlock();
    }

   private:
    Mutex* mutex_;
  };

  class LockAwaiter;
  [[nodiscard]] LockAwaiter lock() noexcept;
  /// Takes it if nobody holds it; then whoever took it gives it back by unlock().
  [[nodiscard]] bool try_lock() noexcept { return !std::exchange(is_locked_, true); }
  /// Hands over to the next in line, so that nobody overtakes it before it runs.
  void unlock() noexcept;
  [[nodiscard]] bool is_locked() const noexcept { return is_locked_; }

 private:
  /// Membership in the queue; an operation's own hook belongs to its cancel scope.
  struct Waiting : ListHook {
    explicit Waiting(LockAwaiter& whose) noexcept : awaiter(whose) {}
    LockAwaiter& awaiter;
  };

  bool is_locked_ = false;
  IntrusiveList<Waiting> queue_;
};

class Mutex::LockAwaiter final : public Operation {
 public:
  explicit LockAwaiter(Mutex& mutex) noexcept : mutex_(mutex), place_(*this) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) noexcept {
    if (!std::exchange(mutex_.is_locked_, true)) return false;
    if (!suspend(waiter, detail::scope_of(waiter))) return false;
    mutex_.queue_.push_back(place_);
    return true;
  }
  Guard await_resume() const {
    throw_if_cancelled();
    return Guard(mutex_);
  }

 private:
  friend class Mutex;
  void request_cancel() noexcept override {
    place_.unlink();
    complete_cancelled();
  }

  Mutex& mutex_;
  Waiting place_;
};

inline Mutex::LockAwaiter Mutex::lock() noexcept { return LockAwaiter(*this); }

inline void Mutex::unlock() noexcept {
  Waiting* next = queue_.pop_front();
  if (next == nullptr)
    is_locked_ = false;
  else
    next->awaiter.complete();
}

}  // namespace cohort
