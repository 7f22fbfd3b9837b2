// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>

#include <exception>
#include <optional>

namespace cohort {

/// The Error that it is, if it is one.
[[nodiscard]] std::optional<Error> error_in(const std::exception_ptr& failure);

/// What is told of it: the Error that it is; ResourceLimit where memory was asked for in vain; of any other
/// exception, Internal with its text.
[[nodiscard]] Error as_error(const std::exception_ptr& failure);

}  // namespace cohort
