// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>
#include <cohort/collectives/schedules/operators/operator.h>

#include <ostream>

/// What GoogleTest says of parameters of these types.
namespace cohort {

inline void PrintTo(Operator op, std::ostream* out) { *out << to_string(op); }
inline void PrintTo(DataType type, std::ostream* out) { *out << to_string(type); }

}  // namespace cohort
