// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/net/join/join_options.h>

#include <optional>

namespace cohort {

/// As JoinOptions::from_environment, for a program that knows its rank and size otherwise: COHORT_RANK and
/// COHORT_SIZE are not read.
[[nodiscard]] JoinOptions join_options_besides_place(WrongVariable wrong = WrongVariable::thrown);
/// The same without the secret, where none is needed: its descriptor is neither read nor closed.
[[nodiscard]] JoinOptions join_options_besides_place_and_secret(WrongVariable wrong = WrongVariable::thrown);

/// Calls that function, and keeps the first InvalidArgument of several as the fault.
template <class Function>
void keep_fault(std::optional<Error>& fault, const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::InvalidArgument) throw;
    if (!fault) fault = error;
  }
}

}  // namespace cohort
