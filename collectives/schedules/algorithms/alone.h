// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>

namespace cohort {

/// A communicator of one: what the rank gives is what it gets, part by part of the operator's definition.
/// Cost: none beyond the copy. In place there is nothing to do.
template <class Op>
void move_own(Exec& x, const Op& op) {
  if constexpr (Op::kHasData) {
    const std::size_t element = op.element_bytes;
    const Form form{.count = op.size_bytes() / element};
    for (const ResultPart& part : Op::result(form, 0))
      x.perform(x.copy({WindowId::recv, part.at * element, part.elements * element},
                       {WindowId::send, part.from * element, part.elements * element}));
  }
}

/// For every operator the same: a new one has it without a line.
template <class Op>
inline constexpr Algorithm<Op> kAlone = {.name = "alone",
                                         .scope = Scope::self,
                                         .cost = [](std::size_t, Rank) { return Cost{}; },
                                         .local = {.announces = Announces::windows, .combine = move_own<Op>}};

}  // namespace cohort
