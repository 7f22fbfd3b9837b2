// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>

namespace cohort::mpi {

/// A value that threads may set and get. Copies have a lock of their own.
template <class T>
class Guarded {
 public:
  Guarded() = default;
  ~Guarded() = default;
  Guarded(const Guarded& other) : value_(other.get()) {}
  Guarded& operator=(const Guarded&) = delete;

  [[nodiscard]] T get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void set(T value) {
    const std::lock_guard lock(mutex_);
    std::swap(value_, value);  // the one before ends without the lock
  }
  /// What function(value) returns, with the lock: it calls nothing of the program's.
  template <class Function>
  auto with(Function&& function) {
    const std::lock_guard lock(mutex_);
    return std::forward<Function>(function)(value_);
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

}  // namespace cohort::mpi
