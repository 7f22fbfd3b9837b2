// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/failure.h>

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <typeinfo>
#include <vector>

/// Methods that Python calls past pybind11's dispatcher, which takes longer than a small collective does:
/// with keywords 0.3 us.
namespace cohort::python {

namespace py = pybind11;

/// What a call was given, in the order of the method's parameters.
class Arguments {
 public:
  static constexpr std::size_t kMost = 12;

  [[nodiscard]] py::object operator[](std::size_t index) const {
    return py::reinterpret_borrow<py::object>(values_[index]);
  }
  /// Whether that parameter is true, as Python sees it.
  [[nodiscard]] bool is_set(std::size_t index) const;
  /// Throws TypeError if it is none that T holds.
  template <class T>
  [[nodiscard]] T number(std::size_t index) const {
    try {
      return py::cast<T>(py::handle(values_[index]));
    } catch (const py::cast_error&) {
      refuse_number(index);
    }
  }

 private:
  friend class Parameters;
  [[noreturn]] void refuse_number(std::size_t index) const;

  std::array<PyObject*, kMost> values_{};  ///< of the caller's, or defaults
  const class Parameters* parameters_ = nullptr;
};

/// The parameters of a method, from their text as Python writes it: "tensor, op='sum', *, out=None".
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

 private:
  struct Parameter {
    std::string_view name;
    PyObject* interned;
    PyObject* value;  ///< where none is given; null: one must be
  };
  [[nodiscard]] std::size_t find(PyObject* keyword) const;

  const char* method_;
  std::vector<Parameter> parameters_;
  std::size_t positional_ = 0;  ///< as many may be given without their names
};

namespace detail {

/// "name($self, parameters)" and the text, as Python's help() and inspect take them; as long as the process.
[[nodiscard]] const char* docstring_of(const char* name, std::string_view parameters, std::string_view text);
void add_method(py::handle type, PyMethodDef& definition);
[[noreturn]] void refuse_empty(std::string_view method);

}  // namespace detail

/// Adds to the class of `Self` a method that calls `function`, a captureless py::object(Self&, const
/// Arguments&), each a lambda of its own. `name` and `parameters` (Parameters says how they are written) are
/// as long as the process.
template <class Self, class Function>
void define_method(py::class_<Self>& type, const char* name, std::string_view parameters,
                   std::string_view text, Function) {
  static const Parameters& known = *new Parameters(name, parameters);
  static const py::detail::type_info* const self_type = py::detail::get_type_info(typeid(Self));
  constexpr auto kCall = [](PyObject* self, PyObject* const* values, Py_ssize_t count,
                            PyObject* keywords) -> PyObject* {
    try {
      Arguments arguments;
      known.take(arguments, {values, static_cast<std::size_t>(count)}, keywords);
      auto* const instance = reinterpret_cast<py::detail::instance*>(self);
      Self* const object = instance->get_value_and_holder(self_type).template value_ptr<Self>();
      if (object == nullptr) detail::refuse_empty(known.method());
      return Function{}(*object, arguments).release().ptr();
#ifdef __GLIBCXX__
    } catch (abi::__forced_unwind&) {
      throw;  // the interpreter has ended, and ends this thread
#endif
    } catch (...) {
      set_thrown();
      return nullptr;
    }
  };
  PyObject* (*const call)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*) = kCall;
  static PyMethodDef definition{name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                                METH_FASTCALL | METH_KEYWORDS, detail::docstring_of(name, parameters, text)};
  detail::add_method(type, definition);
}

}  // namespace cohort::python
