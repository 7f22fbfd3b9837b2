// SPDX-License-Identifier: Apache-2.0
// A class that throws what it is told to, by a method of the package's kind and by one of pybind11's: for
// failure_test.py.
#include <cohort/bindings/python/failure.h>
#include <cohort/bindings/python/method.h>
#include <cohort/engine/error.h>

#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>

namespace cohort::python {
namespace {

struct Thrower {};

template <class Exception>
void throw_as_told() {
  throw Exception("as told");
}

void throw_by(const std::string& name) {
  static const std::map<std::string, std::function<void()>> known = {
      {"invalid_argument", throw_as_told<std::invalid_argument>},
      {"domain_error", throw_as_told<std::domain_error>},
      {"length_error", throw_as_told<std::length_error>},
      {"range_error", throw_as_told<std::range_error>},
      {"out_of_range", throw_as_told<std::out_of_range>},
      {"overflow_error", throw_as_told<std::overflow_error>},
      {"runtime_error", throw_as_told<std::runtime_error>},
      {"py::type_error", throw_as_told<py::type_error>},
      {"bad_alloc", [] { throw std::bad_alloc(); }},
      {"no exception", [] { throw 7; }},
      {"cohort::Error", [] { throw Error(ErrorKind::InvalidArgument, "as told"); }},
      {"error_already_set", [] { py::module_::import("no_such_module"); }},
  };
  known.at(name)();
}

}  // namespace

PYBIND11_MODULE(throwing_module, module) {
  translate_errors();
  py::class_<Thrower> type(module, "Thrower");
  type.def(py::init<>()).def("throw_by_pybind11", [](Thrower&, const std::string& name) { throw_by(name); });
  define_method(type, "throw_past_pybind11", "name", "Throws it.",
                [](Thrower&, const Arguments& given) -> py::object {
                  throw_by(given[0].cast<std::string>());
                  return py::none();
                });
}

}  // namespace cohort::python
