// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace cohort {

/// How many cores the ranks of a machine have. Agreed at joining, from what all were told: the same on every
/// rank of the machine.
enum class CoreSupply : std::uint8_t {
  shared,    ///< some rank finds no core that the ranks before it have left
  one_each,  ///< all ranks can run at the same time
  idle,      ///< and there are as many cores again, for threads that help
};

}  // namespace cohort
