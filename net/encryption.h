// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cohort {

/// What one end wants of a connection: it is encrypted where either end requires it. On the wire: the values
/// stay.
enum class Encryption : std::uint8_t { allowed = 0, required = 1, forbidden = 2 };

}  // namespace cohort
