// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tests/support/wrong_schedules.h>

namespace cohort::test {

/// On mapped ground: memory of peers that is touched when it may not be.
std::vector<WrongSchedule> wrong_phases();

}  // namespace cohort::test
