// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tests/support/wrong_schedules.h>

namespace cohort::test {

/// Of wrong_schedules() those that combine in another order than their algorithm says.
std::vector<WrongSchedule> wrong_orders();

}  // namespace cohort::test
