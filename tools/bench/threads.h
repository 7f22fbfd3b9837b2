// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/membership.h>

#include <cstddef>
#include <vector>

namespace cohort::bench {

/// On which thread each rank of this host runs; threads are numbered by their first rank.
[[nodiscard]] std::vector<std::size_t> threads_of(const Membership& membership);

}  // namespace cohort::bench
