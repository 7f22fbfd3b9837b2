// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/python/interpreter.h>

#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace cohort::python {
namespace {

namespace py = pybind11;

unsigned long main_thread = 0;

}  // namespace

void set_main_thread() {
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  // Of a child that is whichever thread has forked.
  ::pthread_atfork(nullptr, nullptr, [] { main_thread = PyThread_get_thread_ident(); });
}

bool is_main_thread() noexcept { return PyThread_get_thread_ident() == main_thread; }

void stay_behind() noexcept {
  for (;;) ::pause();
}

Unlocked::~Unlocked() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // pthread_exit(), by which the interpreter ends it: unwinds no further
    stay_behind();
  }
}

Signals::~Signals() {
  if (type_ == nullptr) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_XDECREF(type_);
  Py_XDECREF(value_);
  Py_XDECREF(traceback_);
  PyGILState_Release(state);
}

bool Signals::is_wanted() noexcept {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool has_raised = PyErr_CheckSignals() != 0;
  if (has_raised) PyErr_Fetch(&type_, &value_, &traceback_);
  PyGILState_Release(state);
  return has_raised;
}

void Signals::rethrow() {
  if (type_ == nullptr) return;
  const py::gil_scoped_acquire locked;
  PyErr_Restore(std::exchange(type_, nullptr), std::exchange(value_, nullptr),
                std::exchange(traceback_, nullptr));
  throw py::error_already_set();
}

void Signals::raise_later() noexcept {
  if (type_ == nullptr) return;
  const PyGILState_STATE state = PyGILState_Ensure();
  PyThreadState_SetAsyncExc(main_thread, type_);
  PyGILState_Release(state);
}

}  // namespace cohort::python
