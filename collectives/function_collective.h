// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/function_reduction.h>
#include <cohort/collectives/collective.h>

namespace cohort {

/// Made of all_to_all, all_gather and gather, which move elements as bytes, and of the function.
using FunctionCollective = CollectiveOf<FunctionCall>;

}  // namespace cohort
