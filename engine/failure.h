// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>

#include <exception>
#include <new>
#include <optional>

namespace cohort {

/// The Error that it is, if it is one.
[[nodiscard]] std::optional<Error> error_in(const std::exception_ptr& failure);

/// What is told of it: the Error that it is; ResourceLimit where memory was asked for in vain; of any other
/// exception, Internal with its text.
[[nodiscard]] Error as_error(const std::exception_ptr& failure);

/// ResourceLimit: there is no memory left. Made beforehand.
[[nodiscard]] const Error& out_of_memory() noexcept;

/// What `make` returns, or out_of_memory() where there is none for its words: for those who must not throw.
template <class Make>
[[nodiscard]] Error error_unless_out_of_memory(const Make& make) noexcept {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace cohort
