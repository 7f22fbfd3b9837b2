// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/abi.h>

#include <exception>
#include <string>

namespace cohort::mpi {

/// What a call of MPI fails with before cohort sees it, or because it is not here.
class Failure final : public std::exception {
 public:
  Failure(abi::ErrorClass of, std::string text) : class_(of), text_(std::move(text)) {}

  [[nodiscard]] abi::ErrorClass error_class() const noexcept { return class_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  abi::ErrorClass class_;
  std::string text_;
};

[[noreturn]] void fail(abi::ErrorClass of, std::string text);
/// What is being caught, of a receive: thrown again, and as MPI_ERR_TRUNCATE where its buffer is too short.
[[noreturn]] void fail_receive(bool is_too_short);

/// Keeps "MPI_Send: what happened" for MPI_Error_string, among the last thousand: the code that stands for
/// it.
[[nodiscard]] int keep_failure(const char* function, const std::exception_ptr& failure) noexcept;
/// The class of a code, or of a class.
[[nodiscard]] int class_of_code(int code) noexcept;
/// What was kept, or what the class means; whole, however long.
[[nodiscard]] std::string text_of_code(int code);

}  // namespace cohort::mpi
