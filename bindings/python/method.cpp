// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/python/method.h>

#include <cohort/engine/assert.h>

#include <fmt/format.h>
#include <pybind11/eval.h>

#include <algorithm>
#include <string>

namespace cohort::python {

bool Arguments::is_set(std::size_t index) const {
  const int answer = PyObject_IsTrue(values_[index]);
  if (answer < 0) throw py::error_already_set();
  return answer != 0;
}

std::size_t Arguments::index_of(std::string_view name) const { return parameters_->index_of(name); }

Parameters::Parameters(const char* method, std::string_view text) : method_(method) {
  bool is_by_name_only = false;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(", "));
    text.remove_prefix(std::min(text.size(), one.size() + 2));
    if (one == "*") {
      is_by_name_only = true;
      continue;
    }
    const std::string_view name = one.substr(0, one.find('='));
    PyObject* value = nullptr;
    if (name.size() != one.size())
      value = py::eval(py::str(std::string(one.substr(name.size() + 1)))).release().ptr();
    PyObject* const interned = PyUnicode_InternFromString(std::string(name).c_str());
    if (interned == nullptr) throw py::error_already_set();
    parameters_.push_back({name, interned, value});
    if (!is_by_name_only) ++positional_;
  }
  COHORT_ASSERT(parameters_.size() <= Arguments::kMost, "{} has {} parameters, of at most {}", method,
                parameters_.size(), Arguments::kMost);
}

/// Names in a program's text are interned, as these are: nearly always it is the same object.
std::size_t Parameters::find(PyObject* keyword) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].interned == keyword) return i;
  const auto name = py::handle(keyword).cast<std::string>();
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  return static_cast<std::size_t>(found - parameters_.begin());
}

std::size_t Parameters::index_of(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  COHORT_ASSERT(found != parameters_.end(), "{} has no parameter '{}'", method_, name);
  return static_cast<std::size_t>(found - parameters_.begin());
}

void Parameters::refuse_unknown(PyObject* keywords) const {
  py::list names;
  for (const Parameter& parameter : parameters_) names.append(parameter.name);
  const py::object close_matches = py::module_::import("difflib").attr("get_close_matches");
  std::string unknown;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    if (find(PyTuple_GET_ITEM(keywords, i)) != parameters_.size()) continue;
    const auto keyword = py::handle(PyTuple_GET_ITEM(keywords, i)).cast<std::string>();
    const py::list close = close_matches(keyword, names, 1);
    unknown +=
        fmt::format("{}'{}'{}", unknown.empty() ? "" : ", ", keyword,
                    close.empty() ? "" : fmt::format(" (is `{}` meant?)", close[0].cast<std::string>()));
  }
  throw py::type_error(fmt::format("{}() got an unexpected keyword argument {}; it takes {}", method_,
                                   unknown, py::str(", ").attr("join")(names).cast<std::string>()));
}

void Parameters::take(Arguments& arguments, std::span<PyObject* const> positional, PyObject* keywords) const {
  if (positional.size() > positional_)
    throw py::type_error(fmt::format("{}() takes {} positional arguments but {} were given", method_,
                                     positional_, positional.size()));
  arguments.parameters_ = this;
  std::ranges::copy(positional, arguments.values_.begin());
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const std::size_t index = find(PyTuple_GET_ITEM(keywords, i));
    if (index == parameters_.size()) refuse_unknown(keywords);
    if (arguments.values_[index] != nullptr)
      throw py::type_error(
          fmt::format("{}() got multiple values for argument '{}'", method_, parameters_[index].name));
    arguments.values_[index] = positional.data()[positional.size() + static_cast<std::size_t>(i)];
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    PyObject*& value = arguments.values_[i];
    if (value == nullptr) value = parameters_[i].value;
    if (value == nullptr)
      throw py::type_error(
          fmt::format("{}() is missing the required argument '{}'", method_, parameters_[i].name));
  }
}

namespace detail {

PyMethodDef& definition_of(const char* name, const char* self, std::string_view parameters,
                           std::string_view text, Entry entry) {
  // The interpreter keeps the pointers, and asks for the docstring until its end.
  const auto& docstring =
      *new std::string(fmt::format("{}(${}, {})\n--\n\n{}", name, self, parameters, text));
  return *new PyMethodDef{name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(entry)),
                          METH_FASTCALL | METH_KEYWORDS, docstring.c_str()};
}

void add_method(py::handle type, PyMethodDef& definition) {
  PyObject* const method = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &definition);
  if (method == nullptr) throw py::error_already_set();
  type.attr(definition.ml_name) = py::reinterpret_steal<py::object>(method);
}

void add_function(py::module_& module, PyMethodDef& definition) {
  PyObject* const function = PyCFunction_NewEx(&definition, module.ptr(), module.attr("__name__").ptr());
  if (function == nullptr) throw py::error_already_set();
  module.attr(definition.ml_name) = py::reinterpret_steal<py::object>(function);
}

void refuse_empty(std::string_view method) {
  throw py::type_error(
      fmt::format("{}: there is no communicator in this object; cohort.init() and join() make them", method));
}

}  // namespace detail

}  // namespace cohort::python
