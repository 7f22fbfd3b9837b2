// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/c/cohort_c.h>
#include <cohort/engine/error.h>

#include <exception>
#include <string>
#include <utility>

namespace cohort::bindings::c {

[[nodiscard]] cohort_status status_of(ErrorKind kind) noexcept;

/// Keeps what the thread can ask for afterwards, and gives its status. Requires that there is one.
cohort_status keep_error(const std::exception_ptr& failure) noexcept;

/// For arguments that this interface refuses itself: "cohort_wait: `request` is null; ...".
[[noreturn]] void refuse(std::string text);

/// What every function of the interface does around its work, which gives a status: nothing is thrown out of
/// it.
template <class Function>
cohort_status guarded(Function&& work) noexcept {
  try {
    return std::forward<Function>(work)();
  } catch (...) {
    return keep_error(std::current_exception());
  }
}

/// Throws InvalidArgument for a null.
template <class T>
T& given(T* pointer, const char* function, const char* name) {
  if (pointer == nullptr) [[unlikely]]
    refuse(std::string(function) + ": `" + name + "` is null; give one");
  return *pointer;
}

}  // namespace cohort::bindings::c
