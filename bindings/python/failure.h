// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/interpreter.h>
#include <cohort/engine/error.h>

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

namespace cohort::python {

namespace py = pybind11;

/// An Error on its way to Python, with what the call knew besides.
class CallFailure final : public std::exception {
 public:
  CallFailure(Error error, std::string operation, std::string given)
      : error_(std::move(error)),  // NOLINT(bugprone-throw-keyword-missing)
        operation_(std::move(operation)),
        given_(std::move(given)) {}

  [[nodiscard]] const Error& error() const noexcept { return error_; }
  [[nodiscard]] const std::string& operation() const noexcept { return operation_; }
  /// What this rank gave, such as "float32 of shape (2, 3)"; may be empty.
  [[nodiscard]] const std::string& given() const noexcept { return given_; }
  [[nodiscard]] const char* what() const noexcept override { return error_.what(); }

 private:
  Error error_;
  std::string operation_;
  std::string given_;
};

/// Has errors of the library arrive in Python as those of cohort.errors.
void translate_errors();
/// The same for functions that Python calls past pybind11: in a handler, what is being thrown becomes the
/// interpreter's error.
void set_thrown() noexcept;
/// The Python exception of one.
[[nodiscard]] py::object exception_of(const Error& error, const std::string& operation,
                                      const std::string& given);

}  // namespace cohort::python
