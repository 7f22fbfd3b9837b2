// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

namespace cohort::python {

namespace py = pybind11;

/// `value` as a T. Throws TypeError for what is none: `name` is the parameter's of the call, what to give is
/// `what`. Threads: with the interpreter's lock.
template <class T>
[[nodiscard]] T cast_or_refuse(py::handle value, std::string_view call, std::string_view name,
                               std::string_view what) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    throw py::type_error(
        fmt::format("{}: `{}` is {}; give {}", call, name, py::repr(value).cast<std::string>(), what));
  }
}

}  // namespace cohort::python
