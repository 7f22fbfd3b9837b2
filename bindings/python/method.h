// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/cast.h>
#include <cohort/bindings/python/failure.h>

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <typeinfo>
#include <vector>

/// Methods that Python calls past pybind11's dispatcher, which takes longer than a small collective does,
/// above all with keywords.
namespace cohort::python {

namespace py = pybind11;

/// What a call was given, in the order of the method's parameters.
class Arguments {
 public:
  static constexpr std::size_t kMost = 16;

  [[nodiscard]] py::object operator[](std::size_t index) const {
    return py::reinterpret_borrow<py::object>(values_[index]);
  }
  /// Whether that parameter is true, as Python sees it.
  [[nodiscard]] bool is_set(std::size_t index) const;
  /// That parameter as a T. Throws TypeError for what is none: what to give is `what`.
  template <class T>
  [[nodiscard]] T as(std::size_t index, std::string_view what) const;
  template <class T>
  [[nodiscard]] T number(std::size_t index) const {
    return as<T>(index, "a number that fits");
  }
  /// The parameter of that name into `option`, which None leaves as it is.
  template <class T>
  void set(T& option, std::string_view name, std::string_view what) const {
    if (is_given(name)) option = as<T>(index_of(name), what);
  }
  /// Whether that parameter is not None.
  [[nodiscard]] bool is_given(std::string_view name) const { return values_[index_of(name)] != Py_None; }

 private:
  friend class Parameters;
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

  std::array<PyObject*, kMost> values_{};  ///< of the caller's, or defaults
  const class Parameters* parameters_ = nullptr;
};

/// The parameters of a method or function, from their text as Python writes it: "tensor, op='sum', *,
/// out=None".
///
/// Never ended: the interpreter's end has nothing to release defaults with. Threads: with the interpreter's
/// lock.
class Parameters {
 public:
  /// `method` and `text` are as long as the process. At most Arguments::kMost; defaults are expressions of
  /// builtins.
  Parameters(const char* method, std::string_view text);

  /// By the vectorcall convention. Throws TypeError for what does not fit the parameters.
  /// `keywords`: a tuple of names, whose values follow the positional ones; may be null.
  void take(Arguments& arguments, std::span<PyObject* const> positional, PyObject* keywords) const;
  [[nodiscard]] std::string_view method() const noexcept { return method_; }
  [[nodiscard]] std::string_view name(std::size_t index) const noexcept { return parameters_[index].name; }
  /// Of a parameter that there is.
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

 private:
  struct Parameter {
    std::string_view name;
    PyObject* interned;
    PyObject* value;  ///< where none is given; null: one must be
  };
  /// As many as there are parameters: none has that name.
  [[nodiscard]] std::size_t find(PyObject* keyword) const;
  /// Names each of the keywords that is none of its own.
  [[noreturn]] void refuse_unknown(PyObject* keywords) const;

  const char* method_;
  std::vector<Parameter> parameters_;
  std::size_t positional_ = 0;  ///< as many may be given without their names
};

template <class T>
T Arguments::as(std::size_t index, std::string_view what) const {
  return cast_or_refuse<T>(values_[index], parameters_->method(), parameters_->name(index), what);
}

namespace detail {

/// Of the vectorcall convention.
using Entry = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

/// What Python is told of a function: "name($self, parameters)" and the text are its docstring, as help() and
/// inspect take them. As long as the process. `self`: what the first parameter is called.
[[nodiscard]] PyMethodDef& definition_of(const char* name, const char* self, std::string_view parameters,
                                         std::string_view text, Entry entry);
void add_method(py::handle type, PyMethodDef& definition);
void add_function(py::module_& module, PyMethodDef& definition);
[[noreturn]] void refuse_empty(std::string_view method);

/// What `function` makes of the arguments; what it throws becomes the interpreter's error.
template <class Function>
PyObject* call(const Parameters& parameters, std::span<PyObject* const> positional, PyObject* keywords,
               const Function& function) {
  try {
    Arguments arguments;
    parameters.take(arguments, positional, keywords);
    return function(arguments).release().ptr();
#ifdef __GLIBCXX__
  } catch (abi::__forced_unwind&) {
    throw;  // the interpreter has ended, and ends this thread
#endif
  } catch (...) {
    set_thrown();
    return nullptr;
  }
}

}  // namespace detail

/// Adds to the class of `Self` a method that calls `function`, a captureless py::object(Self&, const
/// Arguments&), each a lambda of its own. `name` and `parameters` (Parameters says how they are written) are
/// as long as the process.
template <class Self, class Function>
void define_method(py::class_<Self>& type, const char* name, std::string_view parameters,
                   std::string_view text, Function) {
  static const Parameters& known = *new Parameters(name, parameters);
  static const py::detail::type_info* const self_type = py::detail::get_type_info(typeid(Self));
  constexpr auto kEntry = [](PyObject* self, PyObject* const* values, Py_ssize_t count,
                             PyObject* keywords) -> PyObject* {
    return detail::call(known, {values, static_cast<std::size_t>(count)}, keywords,
                        [self](const Arguments& arguments) -> py::object {
                          auto* const instance = reinterpret_cast<py::detail::instance*>(self);
                          Self* const object =
                              instance->get_value_and_holder(self_type).template value_ptr<Self>();
                          if (object == nullptr) detail::refuse_empty(known.method());
                          return Function{}(*object, arguments);
                        });
  };
  detail::add_method(type, detail::definition_of(name, "self", parameters, text, kEntry));
}

/// Adds to the module a function that calls `function`, a captureless py::object(const Arguments&). The rest
/// as of define_method().
template <class Function>
void define_function(py::module_& module, const char* name, std::string_view parameters,
                     std::string_view text, Function) {
  static const Parameters& known = *new Parameters(name, parameters);
  constexpr auto kEntry = [](PyObject*, PyObject* const* values, Py_ssize_t count,
                             PyObject* keywords) -> PyObject* {
    return detail::call(known, {values, static_cast<std::size_t>(count)}, keywords, Function{});
  };
  detail::add_function(module, detail::definition_of(name, "module", parameters, text, kEntry));
}

}  // namespace cohort::python
