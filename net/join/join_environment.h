// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/join/join_options.h>

namespace cohort {

/// As JoinOptions::from_environment, for a program that knows its rank and size otherwise: COHORT_RANK and
/// COHORT_SIZE are not read.
[[nodiscard]] JoinOptions join_options_besides_place();
/// The same without the secret, where none is needed: its descriptor is neither read nor closed.
[[nodiscard]] JoinOptions join_options_besides_place_and_secret();

}  // namespace cohort
