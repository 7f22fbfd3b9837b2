// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/interrupt.h>

#include <pybind11/pybind11.h>

#include <exception>

// What modules of Python's have to know of the interpreter; without what the library is made of, for that of
// torch, too.
namespace cohort::python {

/// The interpreter's main thread, the only one that handles signals. Once, by who imports the module.
void set_main_thread();
[[nodiscard]] bool is_main_thread() noexcept;

/// Never returns: for a thread that has outlived the interpreter. Of what is Python's it may touch nothing
/// any more, and what it holds would do so.
[[noreturn]] void stay_behind() noexcept;

/// While it lives this thread does without the interpreter's lock. If the interpreter has ended meanwhile,
/// the thread stays behind: it would be ended amid frames of C++, which is the end of the process.
class Unlocked {
 public:
  Unlocked() noexcept : state_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* const state_;
};

/// Signals that the interpreter gets while its main thread waits in the library: their handlers run there.
/// Threads: the main one, with or without the interpreter's lock; others may only make and end one.
class Signals final : public bindings::Interrupt {
 public:
  Signals() = default;
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Runs the handlers of those that have come; whether one of them raised an exception.
  [[nodiscard]] bool is_wanted() noexcept override;
  /// Throws that exception, if there is one.
  void rethrow();
  /// Has an exception of that type raised where the main thread next runs code of Python's, if there is one.
  void raise_later() noexcept;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

/// Calls it without the interpreter's lock, with an interrupt on the main thread. What a signal's handler
/// raised goes before the failure that it led to.
template <class Function>
void wait_without_lock(Function&& function) {
  Signals signals;
  std::exception_ptr failure;
  {
    const Unlocked unlocked;
    try {
      function(is_main_thread() ? &signals : nullptr);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  signals.rethrow();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace cohort::python
