// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

// What modules of Python's have to know of the interpreter. C++17 and without a header of the library, for
// that of torch, too.
namespace cohort::python {

/// The interpreter's main thread, the only one that handles signals. Once, by who imports the module.
void set_main_thread();
[[nodiscard]] bool is_main_thread() noexcept;

/// The interpreter is about to end, and will end every thread but the main one where that next asks for the
/// lock: amid frames of C++, which is the end of the process. From now on they stay where they wait in the
/// library.
void keep_other_threads() noexcept;
/// For a thread that comes back from there, without the lock: returns, or never does.
void return_or_stay() noexcept;

/// While it lives this thread does without the interpreter's lock. At its end the thread may stay behind.
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
/// Threads: the main one, with or without the interpreter's lock.
class Signals {
 public:
  Signals() = default;
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Runs the handlers of those that have come; whether one of them raised an exception.
  [[nodiscard]] bool have_raised() noexcept;
  /// Throws that exception, if there is one. With the lock.
  void rethrow();

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

}  // namespace cohort::python
