// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/task.h>

#include <optional>
#include <string>

namespace cohort::test {

/// The Error that a task ends with, or nothing. `const auto error = co_await error_of(task);`
template <class T>
Task<std::optional<Error>> error_of(Task<T> task) {
  try {
    co_await task;
  } catch (const Error& error) {
    co_return error;
  }
  co_return std::nullopt;
}

/// Of anything that is called: `error_from([&] { engine.run(task()); })`.
template <class Function>
std::optional<Error> error_from(Function&& function) {
  try {
    std::forward<Function>(function)();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// Its kind as text, for messages that can be read: "DeadlineExceeded", or "no error".
inline std::string kind_of(const std::optional<Error>& error) {
  return error ? std::string(to_string(error->kind())) : "no error";
}

}  // namespace cohort::test
