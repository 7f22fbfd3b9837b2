// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/python/failure.h>

#include <cxxabi.h>

namespace cohort::python {
namespace {

void set_error(const Error& error, const std::string& operation, const std::string& given) {
  try {
    const py::object exception = exception_of(error, operation, given);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } catch (const abi::__forced_unwind&) {  // the interpreter has ended: no frame of C++ around may be left so
    stay_behind();
  }
}

}  // namespace

py::object exception_of(const Error& error, const std::string& operation, const std::string& given) {
  const py::object culprit = error.culprit() ? py::object(py::int_(*error.culprit())) : py::none();
  const py::object sequence = error.sequence() ? py::object(py::int_(*error.sequence())) : py::none();
  return py::module_::import("cohort.errors")
      .attr("error_of")(std::string(to_string(error.kind())), std::string(error.message()), culprit,
                        operation, sequence, given);
}

void translate_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const CallFailure& failure) {
      set_error(failure.error(), failure.operation(), failure.given());
    } catch (const Error& error) {
      set_error(error, {}, {});
    }
  });
}

/// By the same translators as pybind11's dispatcher, so that no function of the package raises another
/// exception than the others: its own of the standard's, and ours.
void set_thrown() noexcept {
  auto& own = py::detail::get_local_internals().registered_exception_translators;
  if (py::detail::apply_exception_translators(own)) return;
  auto& shared = py::detail::get_internals().registered_exception_translators;
  if (py::detail::apply_exception_translators(shared)) return;
  PyErr_SetString(PyExc_SystemError, "an exception that no translator of pybind11 takes");
}

}  // namespace cohort::python
