// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/exec.h>

namespace cohort {

Exec::Exec(Rank rank, Rank size) : rank_(rank), size_(size) {
  for (Rank distance = 1; distance < size; ++distance) peers_.push_back(ahead(distance));
}

}  // namespace cohort
