// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>

#include <span>

/// Every algorithm of the library, one file each: OPERATOR_NAME.cpp beside this one, that of an operator
/// which is a variant of another (variant_of()) with the other's. It ends with
///
///   AnyAlgorithm describe(const struct AllGatherMesh*) { return kAlgorithm; }
///
/// The type is a name and nothing else: it stands in the list of library.cpp, on a line of its own, and
/// nowhere else.
namespace cohort {

/// In the order in which equals are preferred; "alone" of every operator among them.
[[nodiscard]] std::span<const AnyAlgorithm> algorithms_of_the_library();

}  // namespace cohort
