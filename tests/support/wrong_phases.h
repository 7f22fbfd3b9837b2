// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tests/support/wrong_schedules.h>

namespace cohort::test {

/// Within a node: memory of peers that is touched when it may not be.
std::vector<WrongSchedule> wrong_phases();

/// A right one beside them: nobody waits before it leaves, though peers still read its CCL buffer.
check::Report published_in_one_place(const check::CheckOptions& options);

}  // namespace cohort::test
